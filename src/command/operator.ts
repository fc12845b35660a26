/** `loket operator`: who is an operator, which is first decided by who has the machine. */
import { Option } from "@commander-js/extra-typings"
import { nanoid } from "nanoid"
import { openForCommand } from "../store/open.ts"
import { changeRole, type GivenRole, operatorRoles } from "../store/operator/role.ts"
import { resetSecondFactorOf } from "./account.ts"
import { command, CommandFailure } from "./command.ts"
import { configuration } from "./settings.ts"

export const operatorCommand = () =>
  command("operator", {
    summary: "Make an account an operator's, or a customer's again",
    details:
      "The account must exist: sign up on the dashboard first. Its sessions end, so that it signs in anew.\n" +
      "`support` reads everything and freezes; `finance` also adjusts balances, and sets prices and exchange rates;\n" +
      "`owner` does everything, and gives and takes roles in the dashboard.",
    examples: [
      ["operator ana@mail.id", "ana is an owner from now on"],
      ["operator budi@mail.id --role support", "budi may look at everything, and freeze"],
      ["operator ana@mail.id --revoke", "and a customer again"],
      [
        "operator ana@mail.id --reset-second-factor",
        "for an operator who has lost it; the next sign-in leads to a new one",
      ],
    ],
  })
    .argument("<email>", "the address that the account signed up with")
    .addOption(new Option("--role <role>", "what the operator may do").choices(operatorRoles).default("owner" as const))
    .option("--revoke", "take the role back")
    .option("--reset-second-factor", "take away the second factor and the recovery codes, and end all sessions")
    .action(async (email, { revoke, resetSecondFactor, role: asked }) => {
      if (resetSecondFactor === true) return await resetSecondFactorOf(email, "loket operator --reset-second-factor")
      const role: GivenRole = revoke === true ? "customer" : asked
      const store = await openForCommand(configuration())
      const act = { requestId: `cmd_${nanoid()}`, operatorId: undefined, address: undefined }
      const outcome = await changeRole(
        store.database,
        { email: email.normalize("NFC") },
        { role, act, keepsAnOwner: false },
      )
      await store.close()
      if (outcome?.kind !== "changed")
        throw new CommandFailure(
          `there is no account with the address ${email}; sign up with it first, or look for it with \`loket account list\``,
        )
      const is = role === "customer" ? "a customer" : `an operator of the role ${role}`
      console.log(
        outcome.before === role
          ? `${email} is ${is} already`
          : `${email} is ${is} now; its sessions have ended, so sign in again`,
      )
    })
