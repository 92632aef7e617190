// What the real `ai` package makes of the edge. Started by tests/it/ai.rs:
//   node --input-type=module - BASE TOKEN PACKAGE < client.mjs
// PACKAGE is `ai` (7) or `ai6`. The NPCs are scripted: `whole` does everything, `failing` fails, `held` waits in the middle of everything.
import assert from 'node:assert/strict';

const [base, token, name] = process.argv.slice(2);
const {
  uiMessageChunkSchema, parseJsonEventStream, readUIMessageStream, DefaultChatTransport, AbstractChat, safeValidateUIMessages,
  convertToModelMessages,
} = await import(name);

const headers = { authorization: `Bearer ${token}` };
const api = `${base}/v1/chat`;
const call = async (method, path) => {
  const response = await fetch(base + path, { method, headers });
  assert.ok(response.ok, `${method} ${path}: ${response.status} ${await response.clone().text()}`);
  return response.json();
};
const question = (npc, id, message) => ({
  id, npc, trigger: 'submit-message', messages: [{ id: message, role: 'user', parts: [{ type: 'text', text: 'hello' }] }],
});
const post = body =>
  fetch(api, { method: 'POST', headers: { ...headers, 'content-type': 'application/json' }, body: JSON.stringify(body) });

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
  constructor(npc, id, messages = []) {
    const state = new State();
    state.messages = messages;
    super({
      id, state, transport: new DefaultChatTransport({ api, headers, body: { npc } }),
      onFinish: finish => { this.finished = finish; }, onError: () => {},
    });
  }
  get last() { return this.messages.at(-1); }
}

// A Part as a person sees it: without what differs between versions of the client.
const seen = parts => parts.map(part => {
  const kept = {};
  for (const key of ['type', 'text', 'state', 'toolName', 'toolCallId', 'input', 'output', 'errorText', 'data', 'mediaType', 'url']) {
    if (part[key] !== undefined) kept[key] = part[key];
  }
  return kept;
});
const settled = parts => parts.every(part => !['streaming', 'input-streaming', 'input-available'].includes(part.state));
const until = async (what, condition) => {
  const deadline = Date.now() + 20_000;
  while (!condition()) {
    assert.ok(Date.now() < deadline, `waited too long for ${what}`);
    await new Promise(resolve => setTimeout(resolve, 5));
  }
};
// Whoever hands Messages on to a model says where their files are: version 7 takes absolute URLs alone.
const absolute = messages => messages.map(message => ({
  ...message, parts: message.parts.map(part => (part.type === 'file' ? { ...part, url: new URL(part.url, base).href } : part)),
}));
const convertible = async messages => {
  const valid = await safeValidateUIMessages({ messages });
  assert.ok(valid.success, valid.error?.message);
  return convertToModelMessages(absolute(messages));
};

const checks = {
  async 'every chunk is one that the schema knows'() {
    for (const npc of ['whole', 'failing']) {
      const response = await post(question(npc, `schema-${npc}`, 'u1'));
      assert.equal(response.headers.get('x-vercel-ai-ui-message-stream'), 'v1');
      assert.match(response.headers.get('content-type'), /^text\/event-stream/);
      const [parsed, text] = response.body.tee();
      let count = 0;
      for await (const chunk of parseJsonEventStream({ stream: parsed, schema: uiMessageChunkSchema })) {
        assert.ok(chunk.success, chunk.error?.message);
        count += 1;
      }
      assert.ok(count > 5);
      assert.ok((await new Response(text).text()).endsWith('data: [DONE]\n\n'));
    }
  },

  async 'the assembled Message is the stored one'() {
    const response = await post(question('whole', 'assembled', 'u1'));
    const chunks = parseJsonEventStream({ stream: response.body, schema: uiMessageChunkSchema }).pipeThrough(new TransformStream({
      transform(chunk, controller) {
        if (!chunk.success) throw chunk.error;
        controller.enqueue(chunk.value);
      },
    }));
    let message;
    for await (const next of readUIMessageStream({ stream: chunks, terminateOnError: true })) message = next;
    const { messages } = await call('GET', '/v1/conversations/assembled');
    const stored = messages.at(-1);
    assert.equal(message.id, stored.id);
    assert.deepEqual(seen(message.parts), seen(stored.parts));
    assert.deepEqual(stored.parts.map(part => part.type + (part.state ? `:${part.state}` : '')), [
      'data-notice', 'step-start', 'reasoning:done', 'text:done', 'dynamic-tool:output-available', 'dynamic-tool:output-error',
      'dynamic-tool:output-error', 'file', 'file', 'step-start', 'text:done',
    ]);
    assert.deepEqual(stored.parts.filter(part => part.type === 'file').map(({ mediaType, url }) => `${mediaType} ${url}`), [
      'image/png /v1/media/m-1', 'application/octet-stream /v1/media/m-2',
    ]);
    const roles = (await convertible(messages)).map(model => model.role);
    assert.deepEqual(roles, ['user', 'assistant', 'tool', 'assistant']);
  },

  async 'a chat asks, asks again, edits, and comes back to nothing'() {
    const chat = new Chat('whole', 'round-trip');
    await chat.sendMessage({ text: 'hello' });
    assert.equal(chat.status, 'ready', chat.error?.message);
    assert.equal(chat.finished.finishReason, 'stop');
    assert.equal(chat.messages.length, 2);
    const { metadata } = chat.last;
    assert.ok(metadata.conversationId && metadata.turnId);
    assert.equal(metadata.status, 'finished');
    assert.equal(metadata.usage.inputTokens, 120);
    assert.deepEqual(metadata.limits, ['steps']);
    const answer = chat.last.id;
    await chat.regenerate();
    assert.equal(chat.status, 'ready', chat.error?.message);
    assert.notEqual(chat.last.id, answer);
    await chat.sendMessage({ text: 'hello, rather', messageId: chat.messages[0].id });
    assert.equal(chat.status, 'ready', chat.error?.message);
    assert.equal(chat.messages.length, 2);
    const before = JSON.stringify(chat.messages);
    await chat.resumeStream();
    assert.equal(chat.status, 'ready');
    assert.equal(JSON.stringify(chat.messages), before);
    await convertible(chat.messages);
    const stranger = new Chat('whole', 'never-heard-of');
    await stranger.resumeStream();
    assert.equal(stranger.status, 'ready');
  },

  async 'an aborted turn leaves nothing unsettled, for the one who asked and for the one who came back'() {
    const chat = new Chat('held', 'aborted');
    const asking = chat.sendMessage({ text: 'hello' });
    await until('the middle of the turn', () => chat.last?.parts?.some(part => part.state === 'input-streaming' && part.toolCallId === 'call-2'));
    assert.ok(!settled(chat.last.parts));
    const { messages } = await call('GET', '/v1/conversations/aborted');
    assert.equal((await call('GET', '/v1/conversations/aborted')).status, 'running');
    const back = new Chat('held', 'aborted', messages);
    const resuming = back.resumeStream();
    await until('the replay', () => back.status === 'streaming' && back.last.parts.some(part => part.toolCallId === 'call-2'));
    const stopped = await call('POST', `/v1/turns/${encodeURIComponent(chat.last.metadata.turnId)}/abort`);
    assert.equal(stopped.status, 'aborted');
    await Promise.all([asking, resuming]);
    const stored = await call('GET', '/v1/conversations/aborted');
    assert.equal(stored.status, 'idle');
    for (const one of [chat, back]) {
      assert.equal(one.status, 'ready', one.error?.message);
      assert.equal(one.messages.length, 2);
      assert.ok(settled(one.last.parts), JSON.stringify(one.last.parts));
      assert.equal(one.last.metadata.status, 'aborted');
      assert.deepEqual(one.last.parts.map(part => part.type), stored.messages.at(-1).parts.map(part => part.type));
      await convertible(one.messages);
    }
    assert.deepEqual(seen(chat.last.parts), seen(back.last.parts));
    await convertible(stored.messages);
  },

  async 'a failed turn is an error with a sentence, and its Parts are settled'() {
    const chat = new Chat('failing', 'failed');
    await chat.sendMessage({ text: 'hello' });
    assert.equal(chat.status, 'error');
    assert.equal(chat.error.message, 'The Provider refused the key.');
    assert.ok(settled(chat.last.parts), JSON.stringify(chat.last.parts));
    assert.equal(chat.last.metadata.status, 'failed');
    await convertible(chat.messages);
  },

  async 'a refusal is told in its own words'() {
    const chat = new Chat('nobody', 'refused');
    await chat.sendMessage({ text: 'hello' });
    assert.equal(chat.status, 'error');
    assert.match(chat.error.message, /there is no NPC of that name/);
    const file = new Chat('whole', 'file');
    await file.sendMessage({ text: 'see', files: [{ type: 'file', mediaType: 'text/plain', url: 'data:text/plain,x' }] });
    assert.match(file.error.message, /takes text only/);
  },
};

for (const [what, check] of Object.entries(checks)) {
  try {
    await check();
    console.log(`ok: ${what}`);
  } catch (error) {
    console.error(`failed: ${what}\n${error.stack}`);
    process.exitCode = 1;
  }
}
