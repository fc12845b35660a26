/** `loket operator`: who is an operator, which nobody decides but who has the machine. */
import { openForCommand } from "../store/open.ts"
import { changeRole } from "../store/operator/role.ts"
import { command, CommandFailure } from "./command.ts"
import { configuration } from "./settings.ts"

export const operatorCommand = () =>
  command("operator", {
    summary: "Make an account an operator's, or a customer's again",
    details: "The account must exist: sign up on the dashboard first. Its sessions end, so that it signs in anew.",
    examples: [
      ["operator ana@mail.id", "ana is an operator from now on"],
      ["operator ana@mail.id --revoke", "and a customer again"],
    ],
  })
    .argument("<email>", "the address that the account signed up with")
    .option("--revoke", "take the role back")
    .action(async (email, { revoke }) => {
      const role = revoke === true ? "customer" : "operator"
      const store = await openForCommand(configuration())
      const before = await changeRole(store.database, email.normalize("NFC"), role)
      await store.close()
      if (before === undefined)
        throw new CommandFailure(
          `there is no account with the address ${email}; sign up with it first, or look for it with \`loket account list\``,
        )
      const is = role === "operator" ? "an operator" : "a customer"
      console.log(
        before === role
          ? `${email} is ${is} already`
          : `${email} is ${is} now; its sessions have ended, so sign in again`,
      )
    })
