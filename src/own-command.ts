/** How this process was started, to start it again: the program with its arguments, from source or compiled. */
export function ownCommand(): readonly string[] {
  const { execPath, execArgv, argv } = process
  // In a compiled binary the second argument is the path inside it, which a new process adds by itself.
  const compiled = argv[1]?.startsWith("/$bunfs/") === true
  return [execPath, ...(compiled ? argv.slice(2) : [...execArgv, ...argv.slice(1)])]
}
