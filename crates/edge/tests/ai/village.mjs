// A chat of the real `ai` package with a real Village. Started by tests/it/ai.rs:
//   node --input-type=module - BASE TOKEN PACKAGE < village.mjs
// The Provider is scripted: it calls current_time and then answers, and stalls when the question holds the word `stall`.
import assert from 'node:assert/strict';

const [base, token, name] = process.argv.slice(2);
const { DefaultChatTransport, AbstractChat, safeValidateUIMessages, convertToModelMessages } = await import(name);

const headers = { authorization: `Bearer ${token}` };
const call = async (method, path) => {
  const response = await fetch(base + path, { method, headers });
  assert.ok(response.ok, `${method} ${path}: ${response.status} ${await response.clone().text()}`);
  return response.json();
};

class State {
  messages = [];
  status = 'ready';
  error;
  pushMessage = message => { this.messages = [...this.messages, message]; };
  popMessage = () => { this.messages = this.messages.slice(0, -1); };
  replaceMessage = (index, message) => { this.messages = this.messages.map((old, at) => (at === index ? message : old)); };
  snapshot = thing => structuredClone(thing);
}
class Chat extends AbstractChat {
  constructor(id, messages = []) {
    const state = new State();
    state.messages = messages;
    super({ id, state, transport: new DefaultChatTransport({ api: `${base}/v1/chat`, headers, body: { npc: 'Keeper' } }), onError: () => {} });
  }
  get last() { return this.messages.at(-1); }
}

const seen = messages => messages.map(({ id, role, parts }) => ({
  id, role, parts: parts.map(part => {
    const kept = {};
    for (const key of ['type', 'text', 'toolName', 'toolCallId', 'input', 'output', 'errorText', 'data']) {
      if (part[key] !== undefined) kept[key] = part[key];
    }
    // A user's Part has a state only once it was stored.
    if (role === 'assistant' && part.state !== undefined) kept.state = part.state;
    return kept;
  }),
}));
const same = async chat => {
  const { messages, status } = await call('GET', `/v1/conversations/${chat.id}`);
  assert.equal(status, 'idle');
  assert.deepEqual(seen(chat.messages), seen(messages));
  const valid = await safeValidateUIMessages({ messages });
  assert.ok(valid.success, valid.error?.message);
  return convertToModelMessages(messages);
};
const ready = chat => assert.equal(chat.status, 'ready', chat.error?.message);
const until = async (what, condition) => {
  const deadline = Date.now() + 20_000;
  while (!condition()) {
    assert.ok(Date.now() < deadline, `waited too long for ${what}`);
    await new Promise(resolve => setTimeout(resolve, 5));
  }
};

const chat = new Chat('real');
await chat.sendMessage({ text: 'what time is it?' });
ready(chat);
assert.ok(chat.last.parts.some(part => part.type === 'dynamic-tool' && part.state === 'output-available'), JSON.stringify(chat.last.parts));
assert.deepEqual((await same(chat)).map(message => message.role), ['user', 'assistant', 'tool', 'assistant']);

// A second question, then its answer again, twice, then the first question in other words.
await chat.sendMessage({ text: 'and now?' });
ready(chat);
await same(chat);
const answers = new Set([chat.last.id]);
for (const options of [{}, { messageId: chat.last.id }]) {
  if (options.messageId) options.messageId = chat.last.id;
  await chat.regenerate(options);
  ready(chat);
  answers.add(chat.last.id);
  await same(chat);
}
assert.equal(answers.size, 3);
await chat.sendMessage({ text: 'what day is it?', messageId: chat.messages[0].id });
ready(chat);
assert.equal(chat.messages.length, 2);
await same(chat);

// Stopped in the middle, seen by one who came back; and the next question is taken.
const asking = chat.sendMessage({ text: 'stall, please' });
await until('the first words', () => chat.last?.role === 'assistant' && chat.last.parts.some(part => part.text?.startsWith('half a')));
const { messages, status } = await call('GET', '/v1/conversations/real');
assert.equal(status, 'running');
const back = new Chat('real', messages);
const resuming = back.resumeStream();
await until('the replay', () => back.status === 'streaming' && back.last.parts.some(part => part.text?.startsWith('half a')));
const stopped = await call('POST', `/v1/turns/${chat.last.metadata.turnId}/abort`);
assert.equal(stopped.status, 'aborted');
await Promise.all([asking, resuming]);
for (const one of [chat, back]) {
  ready(one);
  assert.equal(one.last.metadata.status, 'aborted');
  await same(one);
}
await chat.sendMessage({ text: 'go on' });
ready(chat);
await same(chat);
await chat.resumeStream();
ready(chat);
await same(chat);
console.log('ok: the chat went well');
