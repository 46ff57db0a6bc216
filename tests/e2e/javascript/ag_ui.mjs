// Holds a conversation with AG-UI's HttpAgent, and prints what each turn brought as JSON.
// node ag_ui.mjs '{"url": …, "token": … or null, "flow": …, "thread": …,
//                  "turns": [{"content": text or parts} or {"payload": answer to each interrupt}]}'
import { HttpAgent, buildResumeArray } from "@ag-ui/client";

const { url, token, flow, thread, turns } = JSON.parse(process.argv[2]);
const agent = new HttpAgent({
  url: `${url}/api/v1/flows/${flow}/ag-ui`,
  headers: token ? { Authorization: `Bearer ${token}` } : {},
  threadId: thread,
});
const seen = [];
for (const turn of turns) {
  const options = {};
  if (turn.content !== undefined)
    agent.addMessage({ id: `m${seen.length}`, role: "user", content: turn.content });
  else
    options.resume = buildResumeArray(
      agent.pendingInterrupts,
      Object.fromEntries(
        agent.pendingInterrupts.map(({ id }) => [id, { status: "resolved", payload: turn.payload }]),
      ),
    );
  const events = [];
  const errors = [];
  let result;
  try {
    result = await agent.runAgent(options, {
      onEvent: ({ event }) => {
        events.push(event);
      },
      onRunFailed: ({ error }) => {
        errors.push(String(error));
      },
    });
  } catch (error) {
    errors.push(String(error));
  }
  seen.push({
    types: events.map(({ type }) => type),
    end: events.at(-1),
    errors,
    result: result?.result,
    messages: structuredClone(agent.messages),
    interrupts: agent.pendingInterrupts,
  });
}
console.log(JSON.stringify(seen));
