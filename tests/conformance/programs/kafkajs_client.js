// Jobs done by kafkajs: one line of JSON in, one out (see program.py). argv[2]: its node_modules.
//
// A consumer of kafkajs always joins a group. Reading one partition without a group is done with
// what its consumer stands on: its cluster, its brokers, and its filter of aborted records.

"use strict";

const path = require("path");
const readline = require("readline");

const modules = process.argv[2];
const load = (name) => require(path.join(modules, name));

process.env.KAFKAJS_NO_PARTITIONER_WARNING = "1";
const { Kafka, CompressionTypes, CompressionCodecs, ConfigResourceTypes, logLevel } =
  load("kafkajs");
CompressionCodecs[CompressionTypes.Snappy] = load("kafkajs-snappy");

const CODECS = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
};
const TIMEOUT_MS = 30000;

const bytes = (told) => (told === null ? null : Buffer.from(told, "base64"));
const text = (value) =>
  value === null || value === undefined ? null : Buffer.from(value).toString("base64");
const client = (job) => new Kafka({ brokers: job.bootstrap.split(","), logLevel: logLevel.ERROR });

async function withAdmin(job, work) {
  const admin = client(job).admin();
  await admin.connect();
  try {
    return await work(admin);
  } finally {
    await admin.disconnect();
  }
}

function headersOf(told) {
  const headers = {};
  for (const [name, value] of told) {
    headers[name] = name in headers ? [].concat(headers[name], [bytes(value)]) : bytes(value);
  }
  return headers;
}

async function produce(job) {
  const producer = client(job).producer({ idempotent: job.idempotent, maxInFlightRequests: 1 });
  await producer.connect();
  try {
    const messages = job.records.map((each) => ({
      key: bytes(each.key),
      value: bytes(each.value),
      headers: headersOf(each.headers),
      timestamp: String(each.timestamp),
      partition: job.partition,
    }));
    const sent = await producer.send({
      topic: job.topic,
      acks: job.acks,
      compression: CODECS[job.codec],
      messages,
    });
    const base = job.acks === 0 ? null : Number(sent[0].baseOffset);
    return messages.map((_, at) => (base === null ? -1 : base + at));
  } finally {
    await producer.disconnect();
  }
}

// The cluster that a consumer of kafkajs would be given.
function clusterOf(job) {
  const kafka = client(job);
  const made = Object.getOwnPropertySymbols(kafka).find((each) =>
    String(each.description).endsWith(":createCluster"),
  );
  return kafka[made]({ isolationLevel: job.read_committed ? 1 : 0, maxInFlightRequests: 1 });
}

async function consume(job) {
  const cluster = clusterOf(job);
  await cluster.connect();
  try {
    await cluster.addTargetTopic(job.topic);
    return await readAll(cluster, job);
  } finally {
    await cluster.disconnect();
  }
}

async function readAll(cluster, job) {
  const [leader] = Object.keys(cluster.findLeaderForPartitions(job.topic, [job.partition]));
  const broker = await cluster.findBroker({ nodeId: leader });
  const Batch = load("kafkajs/src/consumer/batch");
  const found = [];
  const deadline = Date.now() + TIMEOUT_MS;
  let at = job.start;
  while (found.length < job.count) {
    if (Date.now() > deadline) throw new Error(`${found.length} records came`);
    const { responses } = await broker.fetch({
      maxWaitTime: 500,
      minBytes: 1,
      maxBytes: 10485760,
      isolationLevel: job.read_committed ? 1 : 0,
      topics: [
        {
          topic: job.topic,
          partitions: [{ partition: job.partition, fetchOffset: String(at), maxBytes: 1048576 }],
        },
      ],
      rackId: "",
    });
    const [data] = responses[0].partitions;
    const batch = new Batch(job.topic, String(at), data);
    for (const each of batch.messages) {
      if (found.length < job.count) found.push(told(each));
    }
    if (!batch.isEmpty() || batch.isEmptyControlRecord()) at = Number(batch.lastOffset()) + 1;
  }
  return found;
}

function told(message) {
  const headers = [];
  for (const [name, value] of Object.entries(message.headers)) {
    for (const each of Array.isArray(value) ? value : [value]) headers.push([name, text(each)]);
  }
  return {
    key: text(message.key),
    value: text(message.value),
    headers,
    timestamp: Number(message.timestamp),
    offset: Number(message.offset),
  };
}

async function offset(job) {
  return withAdmin(job, async (admin) => {
    if (typeof job.at === "string") {
      const all = await admin.fetchTopicOffsets(job.topic);
      const each = all.find((one) => one.partition === job.partition);
      return Number(job.at === "earliest" ? each.low : each.high);
    }
    // Where there is no such record it tells the end of the log instead.
    const [end, all] = [
      await admin.fetchTopicOffsets(job.topic),
      await admin.fetchTopicOffsetsByTimestamp(job.topic, job.at),
    ];
    const of = (told) => Number(told.find((one) => one.partition === job.partition).offset);
    return of(all) === of(end) ? -1 : of(all);
  });
}

const resource = (job) => ({ type: ConfigResourceTypes.TOPIC, name: job.topic });

const JOBS = {
  produce,
  consume,
  offset,
  create: (job) =>
    withAdmin(job, (admin) =>
      admin.createTopics({
        waitForLeaders: true,
        topics: [
          {
            topic: job.topic,
            numPartitions: job.partitions,
            replicationFactor: 1,
            configEntries: Object.entries(job.configs).map(([name, value]) => ({ name, value })),
          },
        ],
      }),
    ),
  describe: (job) =>
    withAdmin(job, async (admin) => {
      const { topics } = await admin.fetchTopicMetadata({ topics: [job.topic] });
      return topics[0].partitions.length;
    }),
  grow: (job) =>
    withAdmin(job, async (admin) => {
      const topicPartitions = [{ topic: job.topic, count: job.partitions }];
      await admin.createPartitions({ topicPartitions });
      return true;
    }),
  configs: (job) =>
    withAdmin(job, async (admin) => {
      const { resources } = await admin.describeConfigs({ resources: [resource(job)] });
      const entries = resources[0].configEntries;
      return Object.fromEntries(entries.map((each) => [each.configName, each.configValue]));
    }),
  alter: (job) =>
    withAdmin(job, async (admin) => {
      const configEntries = [{ name: job.name, value: job.value }];
      await admin.alterConfigs({ resources: [{ ...resource(job), configEntries }] });
      return true;
    }),
  trim: (job) =>
    withAdmin(job, async (admin) => {
      await admin.fetchTopicOffsets(job.topic); // else it does not know the topic's leaders
      const partitions = [{ partition: job.partition, offset: String(job.before) }];
      await admin.deleteTopicRecords({ topic: job.topic, partitions });
      return true;
    }),
  delete: (job) =>
    withAdmin(job, async (admin) => {
      await admin.deleteTopics({ topics: [job.topic] });
      return true;
    }),
  topics: (job) => withAdmin(job, async (admin) => (await admin.listTopics()).sort()),
  cluster: (job) =>
    withAdmin(job, async (admin) => {
      const found = await admin.describeCluster();
      const brokers = found.brokers.map((each) => [each.nodeId, each.host, each.port]);
      return { id: found.clusterId, brokers };
    }),
};

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const job = JSON.parse(line);
    let answer;
    try {
      answer = { ok: await JOBS[job.do](job) };
    } catch (failed) {
      answer = { error: String(failed) };
    }
    process.stdout.write(JSON.stringify(answer) + "\n");
  }
}

main();
