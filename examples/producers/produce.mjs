// Publish what was learnt as events: node produce.mjs HOST:PORT [TOPIC]
//
// Needs Node 24.6 (or 22.22) or newer: npm install @platformatic/kafka@2.12.1

import {
  compatibilityPartitioner,
  ProduceAcks,
  Producer,
  stringSerializers,
} from '@platformatic/kafka'

const LEARNT = [
  // scope, session, turn, when it was said, what was learnt
  ['cafe/ana', 'chat-7', 1, '2026-03-01T09:00:00Z', 'Ana usually orders a flat white.'],
  ['cafe/ana', 'chat-7', 2, '2026-03-01T09:01:30Z', 'Ana is allergic to hazelnuts.'],
  ['cafe/ben', 'chat-8', 1, '2026-03-01T09:15:00Z', 'Ben takes the window seat.'],
  ['cafe/eve', 'chat-9', 1, '2026-03-02T08:40:00Z', 'Eve pays in cash.'],
  ['cafe/max', 'chat-10', 4, '2026-03-02T12:05:00Z', 'Max works at the bakery next door.'],
  ['cafe/zoë', 'chat-11', 1, '2026-03-03T16:20:00Z', 'Zoë comes by on Tuesdays.'],
]

// Made again of the same turn, an event has the same id, and counts once.
function event(scope, session, turn, saidAt, text) {
  return {
    kind: 'remember',
    schema_version: 1,
    event_id: `${session}/${turn}`,
    scope,
    text,
    occurred_at: new Date(saidAt).toISOString(),
  }
}

const [bootstrap, topic = 'memory.events'] = process.argv.slice(2)
const producer = new Producer({
  clientId: 'extractor',
  bootstrapBrokers: [bootstrap],
  serializers: stringSerializers,
  acks: ProduceAcks.ALL,
  idempotent: true,
  partitioner: compatibilityPartitioner, // Java's; this client's own default is another
})
try {
  await producer.send({
    messages: LEARNT.map((learnt) => ({
      topic,
      key: learnt[0],
      value: JSON.stringify(event(...learnt)),
    })),
  })
} finally {
  await producer.close()
}
