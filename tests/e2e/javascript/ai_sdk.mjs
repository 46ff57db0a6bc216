// Holds a chat as `useChat` does, and prints the message after each turn as JSON.
// node ai_sdk.mjs '{"package": "ai" or "ai-6", "url": …, "token": … or null, "flow": …, "chat": …,
//                   "turns": [{"say": …, "files": […]} or {"approve": …, "reason": …}, …]}'
const { package: name, url, token, flow, chat, turns } = JSON.parse(process.argv[2]);
const {
  DefaultChatTransport,
  lastAssistantMessageIsCompleteWithApprovalResponses: isComplete,
  readUIMessageStream,
  safeValidateUIMessages,
} = await import(name);

const transport = new DefaultChatTransport({
  api: `${url}/api/v1/flows/${flow}/ai-sdk`,
  headers: token ? { Authorization: `Bearer ${token}` } : {},
});
const messages = [];
const seen = [];
for (const turn of turns) {
  if (turn.say !== undefined) {
    const text = turn.say === "" ? [] : [{ type: "text", text: turn.say }];
    const files = (turn.files ?? []).map((file) => ({ type: "file", ...file }));
    messages.push({ id: `m${messages.length}`, role: "user", parts: [...text, ...files] });
  } else {
    const part = messages.at(-1).parts.findLast((each) => each.state === "approval-requested");
    part.state = "approval-responded";
    part.approval = { ...part.approval, approved: turn.approve, reason: turn.reason };
  }
  const complete = isComplete({ messages });
  const errors = [];
  try {
    const stream = await transport.sendMessages({
      trigger: "submit-message",
      chatId: chat,
      messages,
    });
    const last = messages.at(-1);
    const message = last.role === "assistant" ? structuredClone(last) : undefined;
    let answer;
    const onError = (error) => errors.push(String(error));
    for await (const each of readUIMessageStream({ stream, message, onError })) answer = each;
    if (last.role === "assistant") messages.pop();
    messages.push(answer);
  } catch (error) {
    errors.push(String(error));
  }
  const checked = await safeValidateUIMessages({ messages });
  seen.push({
    complete,
    errors,
    message: structuredClone(messages.at(-1)),
    invalid: checked.success ? null : String(checked.error),
  });
}
console.log(JSON.stringify(seen));
