// Adapter of @platformatic/kafka.
import { createRequire } from 'node:module'
import fs from 'node:fs'
import path from 'node:path'
import * as platformatic from '@platformatic/kafka'
import { Queue, decode, encode, serve, sleep } from './adapter.mjs'

const { Admin, Consumer, Producer, MessagesStreamModes, MessagesStreamFallbackModes } = platformatic
const entry = createRequire(import.meta.url).resolve('@platformatic/kafka')
const { version } = JSON.parse(fs.readFileSync(path.join(path.dirname(entry), '..', 'package.json')))
const topicType = 2

class Adapter {
  held = new Map()

  constructor(bootstrap) {
    this.base = { clientId: 'compat', bootstrapBrokers: [bootstrap], retries: 5, retryDelay: 200 }
  }

  hello() {
    return {
      version,
      lacks: {
        'repeated headers': 'a map when producing',
        seek: 'a stream begins at an offset, but does not move',
      }
    }
  }

  // Producers

  async producer({ id, codec, idempotent, transactional_id: transactionalId }) {
    const options = transactionalId ? { transactionalId, idempotent: true } : { idempotent: !!idempotent }
    const client = new Producer({ ...this.base, ...options, compression: codec, autocreateTopics: false })
    this.held.set(id, { client, transaction: null })
  }

  async send({ id, topic, partition, records }) {
    const { client, transaction } = this.held.get(id)
    const messages = records.map(r => ({
      topic,
      partition,
      key: r.k == null ? undefined : decode(r.k),
      value: decode(r.v) ?? undefined,
      headers: new Map(r.h.map(([name, value]) => [Buffer.from(name), decode(value)])),
      timestamp: r.t == null ? undefined : BigInt(r.t)
    }))
    await (transaction ?? client).send({ messages, acks: -1 })
  }

  // It asks for the producer id when a transaction begins.
  async init() {}

  async begin_transaction({ id }) {
    const held = this.held.get(id)
    held.transaction = await held.client.beginTransaction()
  }

  async commit_transaction({ id }) {
    const held = this.held.get(id)
    await held.transaction.commit()
    held.transaction = null
  }

  async abort_transaction({ id }) {
    const held = this.held.get(id)
    await held.transaction.abort()
    held.transaction = null
  }

  // Offsets go into a transaction as messages that were read.
  async send_offsets({ id, consumer, topic, offsets }) {
    const { transaction } = this.held.get(id)
    const { client, queue } = this.held.get(consumer)
    await transaction.addConsumer(client)
    for (const [p, next] of Object.entries(offsets)) {
      await transaction.addOffset(queue.messages.get(`${p}:${next - 1}`))
    }
  }

  // Consumers

  async consumer({ id, group, topic, instance, assignor, protocol, committed, session_ms: sessionTimeout = 6000 }) {
    const options = protocol
      ? { groupProtocol: 'consumer' }
      : { sessionTimeout, heartbeatInterval: 500, rebalanceTimeout: Math.max(10_000, sessionTimeout) }
    if (instance) options.groupInstanceId = instance
    if (assignor) options.protocols = [{ name: assignor, version: 1 }]
    const client = new Consumer({
      ...this.base,
      groupId: group,
      autocommit: false,
      isolationLevel: committed ? 1 : 0,
      maxWaitTime: 200,
      ...options
    })
    const queue = new Queue()
    queue.messages = new Map()
    const assigned = () => client.assignments?.find(a => a.topic === topic)?.partitions ?? []
    client.on('consumer:group:join', () => queue.assigned(assigned()))
    client.on('consumer:group:rebalance', () => assignor || protocol || queue.rebalancing())
    const stream = await client.consume({
      topics: [topic],
      mode: MessagesStreamModes.COMMITTED,
      fallbackMode: MessagesStreamFallbackModes.EARLIEST
    })
    stream.on('error', error => console.error('stream', error))
    stream.on('data', m => {
      const headers = m.headerEntries.map(([name, value]) => [name.toString(), encode(value)])
      const [t, o] = [Number(m.timestamp), Number(m.offset)]
      queue.messages.set(`${m.partition}:${o}`, m)
      queue.push({ k: encode(m.key), v: encode(m.value), h: headers, t, p: m.partition, o })
    })
    this.held.set(id, { client, queue, stream, topic, assigned })
  }

  async assign({ id, topic, committed }) {
    await this.consumer({ id, group: `${topic}-${id}-${Math.random()}`, topic, committed })
  }

  async poll({ id, ms }) {
    const { queue, assigned } = this.held.get(id)
    if (String(queue.assignment) !== String(assigned())) queue.assigned(assigned())
    return queue.poll(ms)
  }

  async commit({ id }) {
    const { client, queue, topic } = this.held.get(id)
    const offsets = queue.positions().map(([partition, o]) => ({ topic, partition, offset: BigInt(o), leaderEpoch: -1 }))
    await client.commit({ offsets })
  }

  async offset_for_time({ topic, partition, time }) {
    return { offset: await this.listed(topic, partition, BigInt(time)) }
  }

  async bounds({ topic, partition }) {
    return { begin: await this.listed(topic, partition, -2n), end: await this.listed(topic, partition, -1n) }
  }

  async listed(name, partitionIndex, timestamp) {
    const topics = await this.admin.listOffsets({ topics: [{ name, partitions: [{ partitionIndex, timestamp }] }] })
    return Number(topics[0].partitions[0].offset)
  }

  async close({ id }) {
    const { client } = this.held.get(id)
    await Promise.race([client.close(true), sleep(10_000)])
    this.held.delete(id)
  }

  // Administration

  get admin() {
    return (this.made ??= new Admin(this.base))
  }

  async create_topic({ topic, count, configs }) {
    const list = Object.entries(configs).map(([name, value]) => ({ name, value }))
    await this.admin.createTopics({ topics: [topic], partitions: count, replicas: 1, configs: list })
  }

  async delete_topic({ topic }) {
    await this.admin.deleteTopics({ topics: [topic] })
  }

  async list_topics() {
    return { topics: await this.admin.listTopics() }
  }

  async describe_topic({ topic }) {
    const metadata = await this.admin.metadata({ topics: [topic], forceUpdate: true })
    return { partitions: metadata.topics.get(topic).partitionsCount }
  }

  async add_partitions({ topic, count }) {
    await this.admin.createPartitions({ topics: [{ name: topic, count, assignments: null }] })
  }

  async get_config({ topic, name }) {
    const resources = [{ resourceType: topicType, resourceName: topic, configurationKeys: [name] }]
    const described = await this.admin.describeConfigs({ resources })
    return { value: described[0].configs[0].value }
  }

  async set_config({ topic, name, value }) {
    const configs = [{ name, value, configOperation: 0 }]
    await this.admin.incrementalAlterConfigs({ resources: [{ resourceType: topicType, resourceName: topic, configs }] })
  }

  async list_groups() {
    return { groups: [...(await this.admin.listGroups()).keys()] }
  }

  async describe_group({ group }) {
    const described = (await this.admin.describeGroups({ groups: [group] })).get(group)
    return { state: described.state, members: described.members.size }
  }

  async delete_group({ group }) {
    await this.admin.deleteGroups({ groups: [group] })
  }

  async set_group_offsets({ group, topic, offsets }) {
    const partitionOffsets = Object.entries(offsets).map(([p, o]) => ({ partition: Number(p), offset: BigInt(o) }))
    await this.admin.alterConsumerGroupOffsets({ groupId: group, topics: [{ name: topic, partitionOffsets }] })
  }

  async group_offsets({ group, topic, partitions }) {
    const topics = [{ name: topic, partitionIndexes: partitions }]
    const [found] = await this.admin.listConsumerGroupOffsets({ groups: [{ groupId: group, topics }] })
    const listed = found.topics.flatMap(t => t.partitions)
    return { offsets: Object.fromEntries(listed.map(p => [p.partitionIndex, Number(p.committedOffset)])) }
  }

  async delete_group_offsets({ group, topic, partitions }) {
    const topics = [{ name: topic, partitionIndexes: partitions }]
    await this.admin.deleteConsumerGroupOffsets({ groupId: group, topics })
  }

  async delete_records({ topic, partition, before }) {
    await this.admin.deleteRecords({ topics: [{ name: topic, partitions: [{ partition, offset: BigInt(before) }] }] })
  }
}

serve(new Adapter(process.argv[2]))
