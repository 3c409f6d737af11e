// A member of a group: kafkajs (see members/member.py). argv[2]: its node_modules; argv[3]: JSON.
//
// kafkajs brings one assignor, under a name of its own. It is meant to be given others: "range" is
// written here, and its round robin takes the name that all other clients know it by. The bytes are
// of version 0: in later ones members tell what they own, which kafkajs cannot write.

"use strict";

const path = require("path");

const modules = process.argv[2];
const wish = JSON.parse(process.argv[3]);

process.env.KAFKAJS_NO_PARTITIONER_WARNING = "1";
const { Kafka, AssignerProtocol, PartitionAssigners, logLevel } = require(
  path.join(modules, "kafkajs"),
);

const COMMIT_INTERVAL_MS = 300;

const protocolOf = (name, topics) => ({
  name,
  metadata: AssignerProtocol.MemberMetadata.encode({ version: 0, topics }),
});

function shareOf(partitions, members, place) {
  const least = Math.floor(partitions.length / members);
  const larger = partitions.length % members;
  const start = place * least + Math.min(place, larger);
  return partitions.slice(start, start + least + (place < larger ? 1 : 0));
}

const range = ({ cluster }) => ({
  name: "range",
  version: 0,
  protocol: ({ topics }) => protocolOf("range", topics),
  async assign({ members, topics }) {
    const ids = members.map((each) => each.memberId).sort();
    return ids.map((memberId, place) => {
      const assignment = {};
      for (const topic of topics) {
        const partitions = cluster
          .findTopicPartitionMetadata(topic)
          .map((each) => each.partitionId)
          .sort((a, b) => a - b);
        assignment[topic] = shareOf(partitions, ids.length, place);
      }
      const memberAssignment = AssignerProtocol.MemberAssignment.encode({ version: 0, assignment });
      return { memberId, memberAssignment };
    });
  },
});

const roundrobin = (given) => ({
  ...PartitionAssigners.roundRobin(given),
  name: "roundrobin",
  protocol: ({ topics }) => protocolOf("roundrobin", topics),
});

const tell = (fact) => process.stdout.write(JSON.stringify(fact) + "\n");

async function main() {
  const kafka = new Kafka({
    brokers: wish.bootstrap.split(","),
    clientId: wish.name,
    logLevel: logLevel.ERROR,
  });
  const consumer = kafka.consumer({
    groupId: wish.group,
    partitionAssigners: [{ range, roundrobin }[wish.strategy]],
    sessionTimeout: wish.session_ms,
    heartbeatInterval: wish.heartbeat_ms,
    maxWaitTimeInMs: 200,
    // A rebalance within a rebalance counts as a retry; and it does not end while it waits for one.
    retry: { initialRetryTime: 100, maxRetryTime: 1000, retries: 50 },
  });
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) =>
    tell({ owned: payload.memberAssignment[wish.topic] || [] }),
  );
  consumer.on(consumer.events.REBALANCING, () => tell({ owned: [] }));
  const run = async () => {
    await consumer.connect();
    await consumer.run({
      autoCommitInterval: COMMIT_INTERVAL_MS,
      eachBatch: async ({ batch }) =>
        tell({ read: batch.messages.map((each) => [batch.partition, Number(each.offset)]) }),
    });
  };
  const fail = (error) => {
    process.stderr.write(String(error.stack) + "\n");
    process.exit(1);
  };
  consumer.on(consumer.events.CRASH, ({ payload }) => {
    // Where its only broker went away just as it had its share it gives up, without a restart of
    // its own: its users run it again.
    if (payload.error.name === "KafkaJSNoBrokerAvailableError") run().catch(fail);
    else fail(payload.error);
  });
  await consumer.connect();
  await consumer.subscribe({ topics: [wish.topic], fromBeginning: true });
  await run();
  process.stdin.resume();
  await new Promise((resolve) => process.stdin.once("end", resolve));
  await consumer.disconnect();
  process.exit(0); // where it has lost its broker once, it leaves a connection open
}

main();
