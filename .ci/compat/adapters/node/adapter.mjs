// What the JavaScript adapters share: the loop that reads operations and answers them, and a queue between a client that
// pushes records and a poll that asks for them.
import readline from 'node:readline'

export class Lacks extends Error {}

export const encode = b => (b == null ? null : Buffer.from(b).toString('base64'))
export const decode = s => (s == null ? null : Buffer.from(s, 'base64'))
export const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))

// The client's own output goes to standard error.
const out = process.stdout.write.bind(process.stdout)
console.log = console.error

export async function serve(adapter) {
  process.on('unhandledRejection', error => console.error('unhandled', error))
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const { op, ...operation } = JSON.parse(line)
    let answer
    try {
      if (!adapter[op]) throw new Lacks('')
      answer = { ok: (await adapter[op](operation)) ?? {} }
    } catch (error) {
      console.error(error)
      answer = error instanceof Lacks ? { lacks: error.message } : { error: describe(error) }
    }
    out(JSON.stringify(answer) + '\n')
  }
  process.exit(0) // members that were not closed end as in a crash
}

function describe(error) {
  const causes = [error, ...(error.errors ?? []), ...(error.errors ?? []).flatMap(e => e.errors ?? []), error.cause]
  return causes
    .filter(Boolean)
    .map(e => `${e.name}: ${e.message}`)
    .join('; ')
}

// Queue holds what a client pushed until a poll takes it. Records of a generation that is over are dropped: the client
// reads them again from the committed offset.
export class Queue {
  records = []
  assignment = []
  events = []
  delivered = new Map() // partition -> next offset

  push(record) {
    this.records.push(record)
  }

  assigned(partitions) {
    const revoked = this.assignment.filter(p => !partitions.includes(p))
    if (revoked.length) this.events.push(['revoked', revoked])
    this.events.push(['assigned', partitions.filter(p => !this.assignment.includes(p))])
    this.assignment = partitions
    this.records = this.records.filter(r => partitions.includes(r.p))
  }

  rebalancing() {
    if (this.assignment.length) this.events.push(['revoked', this.assignment])
    this.assignment = []
    this.records = []
    this.delivered.clear()
  }

  async poll(ms) {
    const until = Date.now() + ms
    while (!this.records.length && Date.now() < until) await sleep(10)
    const records = this.records.splice(0, 500)
    for (const r of records) this.delivered.set(r.p, r.o + 1)
    const events = this.events.splice(0)
    return { records, assignment: this.assignment, events }
  }

  // positions to commit: what polls returned of the partitions this member has.
  positions() {
    return [...this.delivered].filter(([p]) => this.assignment.includes(p))
  }
}
