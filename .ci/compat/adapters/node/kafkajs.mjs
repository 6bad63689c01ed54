// Adapter of KafkaJS. snappy and lz4 come from codecs that its documentation names or that are registered as it tells.
import { createRequire } from 'node:module'
import zlib from 'node:zlib'
import kafkajs from 'kafkajs'
import SnappyCodec from 'kafkajs-snappy'
import { lz4Compress, lz4Decompress } from '@platformatic/wasm-utils'
import { Queue, decode, encode, serve } from './adapter.mjs'

const { Kafka, CompressionTypes, CompressionCodecs, ConfigResourceTypes, logLevel } = kafkajs
const version = createRequire(import.meta.url)('kafkajs/package.json').version

CompressionCodecs[CompressionTypes.Snappy] = SnappyCodec
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async encoder => Buffer.from(lz4Compress(encoder.buffer)),
  decompress: async buffer => Buffer.from(lz4Decompress(buffer))
})
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async encoder => zlib.zstdCompressSync(encoder.buffer),
  decompress: async buffer => zlib.zstdDecompressSync(buffer)
})

class Adapter {
  held = new Map()

  constructor(bootstrap) {
    this.kafka = new Kafka({
      brokers: [bootstrap],
      logLevel: logLevel.WARN,
      retry: { retries: 6, initialRetryTime: 100 }
    })
  }

  hello() {
    const lacks = {
      static: 'no group.instance.id',
      cooperative: 'eager assignors only',
      kip848: 'classic protocol only',
    }
    if (!zlib.zstdCompressSync) lacks.zstd = 'this Node.js has no zstd'
    return { version, lacks }
  }

  // Producers

  async producer({ id, codec, idempotent, transactional_id: transactionalId }) {
    const exact = idempotent || transactionalId
    const options = exact ? { idempotent: true, maxInFlightRequests: 1, transactionalId } : {}
    const client = this.kafka.producer({ ...options, allowAutoTopicCreation: false })
    if (!transactionalId) await client.connect()
    this.held.set(id, { client, codec, transaction: null })
  }

  async send({ id, topic, partition, records }) {
    const { client, codec, transaction } = this.held.get(id)
    const compression = { none: 0, gzip: 1, snappy: 2, lz4: 3, zstd: 4 }[codec]
    const messages = records.map(r => ({
      key: decode(r.k),
      value: decode(r.v),
      headers: headersOf(r.h),
      partition,
      timestamp: r.t == null ? undefined : String(r.t)
    }))
    await (transaction ?? client).send({ topic, acks: -1, compression, messages })
  }

  async init({ id }) {
    await this.held.get(id).client.connect() // asks for the producer id
  }

  async begin_transaction({ id }) {
    const held = this.held.get(id)
    held.transaction = await held.client.transaction()
  }

  async commit_transaction({ id }) {
    await this.held.get(id).transaction.commit()
  }

  async abort_transaction({ id }) {
    await this.held.get(id).transaction.abort()
  }

  async send_offsets({ id, group, topic, offsets }) {
    const partitions = Object.entries(offsets).map(([p, o]) => ({ partition: Number(p), offset: String(o) }))
    await this.held.get(id).transaction.sendOffsets({ consumerGroupId: group, topics: [{ topic, partitions }] })
  }

  // Consumers

  async consumer({ id, group, topic, committed, session_ms: sessionTimeout = 6000 }) {
    const client = this.kafka.consumer({
      groupId: group,
      sessionTimeout,
      heartbeatInterval: 500,
      rebalanceTimeout: 10_000,
      readUncommitted: !committed,
      maxWaitTimeInMs: 200
    })
    const queue = new Queue()
    client.on('consumer.group_join', e => queue.assigned(e.payload.memberAssignment[topic] ?? []))
    client.on('consumer.rebalancing', () => queue.rebalancing())
    await client.connect()
    await client.subscribe({ topics: [topic], fromBeginning: true })
    await client.run({
      autoCommit: false,
      eachMessage: async ({ partition, message: m }) => {
        const [t, o] = [Number(m.timestamp), Number(m.offset)]
        queue.push({ k: encode(m.key), v: encode(m.value), h: headersTo(m.headers), t, p: partition, o })
      }
    })
    this.held.set(id, { client, queue, topic })
  }

  // KafkaJS assigns partitions only through a group.
  async assign({ id, topic, committed }) {
    await this.consumer({ id, group: `${topic}-${id}-${Math.random()}`, topic, committed })
  }

  poll({ id, ms }) {
    return this.held.get(id).queue.poll(ms)
  }

  async commit({ id }) {
    const { client, queue, topic } = this.held.get(id)
    await client.commitOffsets(queue.positions().map(([partition, o]) => ({ topic, partition, offset: String(o) })))
  }

  async seek({ id, topic, partition, to }) {
    const { begin, end } = await this.bounds({ topic, partition })
    const { client, queue } = this.held.get(id)
    client.seek({ topic, partition, offset: String({ begin, end }[to] ?? to) })
    // What it had fetched before still comes; a seek takes effect with the next fetch.
    await new Promise(resolve => setTimeout(resolve, 500))
    queue.records = queue.records.filter(r => r.o >= ({ begin, end }[to] ?? to))
  }

  async offset_for_time({ topic, partition, time }) {
    const admin = await this.admin()
    const found = (await admin.fetchTopicOffsetsByTimestamp(topic, time)).find(o => o.partition === partition)
    return { offset: Number(found.offset) }
  }

  async bounds({ topic, partition }) {
    const admin = await this.admin()
    const found = (await admin.fetchTopicOffsets(topic)).find(o => o.partition === partition)
    return { begin: Number(found.low), end: Number(found.high) }
  }

  async close({ id }) {
    const { client } = this.held.get(id)
    await client.disconnect()
    this.held.delete(id)
  }

  // Administration

  async admin() {
    if (!this.connected) {
      this.connected = this.kafka.admin()
      await this.connected.connect()
    }
    return this.connected
  }

  async create_topic({ topic, count, configs }) {
    const configEntries = Object.entries(configs).map(([name, value]) => ({ name, value }))
    const topics = [{ topic, numPartitions: count, replicationFactor: 1, configEntries }]
    const created = await (await this.admin()).createTopics({ topics })
    if (!created) throw new Error('the topic exists')
  }

  async delete_topic({ topic }) {
    await (await this.admin()).deleteTopics({ topics: [topic] })
  }

  async list_topics() {
    return { topics: await (await this.admin()).listTopics() }
  }

  async describe_topic({ topic }) {
    const { topics } = await (await this.admin()).fetchTopicMetadata({ topics: [topic] })
    return { partitions: topics[0].partitions.length }
  }

  async add_partitions({ topic, count }) {
    await (await this.admin()).createPartitions({ topicPartitions: [{ topic, count }] })
  }

  async get_config({ topic, name }) {
    const admin = await this.admin()
    const resources = [{ type: ConfigResourceTypes.TOPIC, name: topic, configNames: [name] }]
    const described = await admin.describeConfigs({ resources, includeSynonyms: false })
    return { value: described.resources[0].configEntries[0].configValue }
  }

  async set_config({ topic, name, value }) {
    const resources = [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries: [{ name, value }] }]
    await (await this.admin()).alterConfigs({ resources, validateOnly: false })
  }

  async list_groups() {
    return { groups: (await (await this.admin()).listGroups()).groups.map(g => g.groupId) }
  }

  async describe_group({ group }) {
    const { groups } = await (await this.admin()).describeGroups([group])
    return { state: groups[0].state, members: groups[0].members.length }
  }

  async delete_group({ group }) {
    await (await this.admin()).deleteGroups([group])
  }

  async set_group_offsets({ group, topic, offsets }) {
    const partitions = Object.entries(offsets).map(([p, o]) => ({ partition: Number(p), offset: String(o) }))
    await (await this.admin()).setOffsets({ groupId: group, topic, partitions })
  }

  async group_offsets({ group, topic, partitions }) {
    const [found] = await (await this.admin()).fetchOffsets({ groupId: group, topics: [topic] })
    const wanted = found.partitions.filter(p => partitions.includes(p.partition))
    return { offsets: Object.fromEntries(wanted.map(p => [p.partition, Number(p.offset)])) }
  }

  async delete_records({ topic, partition, before }) {
    await this.bounds({ topic, partition }) // it deletes only from topics whose leaders it has seen
    await (await this.admin()).deleteTopicRecords({ topic, partitions: [{ partition, offset: String(before) }] })
  }
}

// headersOf turns pairs into KafkaJS's map, where a repeated name has a list.
function headersOf(pairs) {
  const headers = {}
  for (const [name, value] of pairs) {
    headers[name] = name in headers ? [headers[name], decode(value)].flat() : decode(value)
  }
  return headers
}

function headersTo(headers) {
  return Object.entries(headers ?? {}).flatMap(([name, value]) => [value].flat().map(v => [name, encode(v)]))
}

serve(new Adapter(process.argv[2]))
