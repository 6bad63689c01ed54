import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.*;
import org.apache.kafka.common.acl.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.*;
import org.apache.kafka.common.resource.*;
import org.apache.kafka.common.serialization.*;

/**
 * Calls each method of Kafka's Admin client, with good and with bad arguments, and prints what came back: a line for
 * each future of each result, in an order that is always the same. What differs between any two servers (ids, times,
 * addresses) is printed as a word, so the output against one can be compared with the output against another.
 *
 * Usage: AdminCheck BOOTSTRAP
 */
public class AdminCheck {
    static final TopicPartition T0 = new TopicPartition("ac-one", 0);
    static final TopicPartition T1 = new TopicPartition("ac-one", 1);
    static final TopicPartition NO_PARTITION = new TopicPartition("ac-one", 99);
    static final TopicPartition NO_TOPIC = new TopicPartition("ac-absent", 0);

    final String bootstrap;
    final Admin admin;
    final Set<String> called = new TreeSet<>();
    final Map<String, String> words = new LinkedHashMap<>();
    final int self;

    AdminCheck(String bootstrap) throws Exception {
        this.bootstrap = bootstrap;
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("default.api.timeout.ms", 8000);
        settings.put("request.timeout.ms", 5000);
        Admin real = Admin.create(settings);
        // Remembers which methods were called, so that one added to Admin later is not forgotten.
        admin = (Admin) java.lang.reflect.Proxy.newProxyInstance(Admin.class.getClassLoader(),
            new Class<?>[] {Admin.class}, (proxy, method, arguments) -> {
                called.add(method.getName());
                try {
                    return method.invoke(real, arguments);
                } catch (InvocationTargetException e) {
                    throw e.getCause();
                }
            });
        DescribeClusterResult cluster = real.describeCluster();
        self = cluster.nodes().get().iterator().next().id();
        words.put(cluster.clusterId().get(), "CLUSTER");
        for (Node n : cluster.nodes().get()) {
            words.put(n.host() + ":" + n.port(), "ADDRESS");
        }
    }

    void run(String name, Callable<Object> call) {
        try {
            Object result = call.call();
            SortedMap<String, String> lines = new TreeMap<>();
            flatten("", result, lines);
            if (lines.isEmpty()) {
                System.out.println(name + ": done");
            }
            lines.forEach((k, v) -> System.out.println(name + " " + k + ": " + plain(v)));
        } catch (Throwable e) {
            System.out.println(name + ": threw " + plain(failure(e)));
        }
    }

    void flatten(String prefix, Object value, Map<String, String> lines) throws Exception {
        if (value instanceof KafkaFuture<?> future) {
            try {
                Object got = future.get(10, TimeUnit.SECONDS);
                if (hasFutures(got)) {
                    flatten(prefix, got, lines);
                } else {
                    lines.put(prefix, show(got));
                }
            } catch (ExecutionException | TimeoutException e) {
                lines.put(prefix, failure(e));
            }
        } else if (value instanceof Map<?, ?> map) {
            for (Map.Entry<?, ?> e : map.entrySet()) {
                flatten(prefix + "[" + show(e.getKey()) + "]", e.getValue(), lines);
            }
        } else if (value != null && value.getClass().getSimpleName().endsWith("Result")) {
            for (Method m : value.getClass().getMethods()) {
                boolean future = KafkaFuture.class.isAssignableFrom(m.getReturnType());
                boolean map = Map.class.isAssignableFrom(m.getReturnType());
                if (m.getParameterCount() == 0 && (future || map)) {
                    flatten(prefix + "." + m.getName(), m.invoke(value), lines);
                }
            }
        } else {
            lines.put(prefix, show(value));
        }
    }

    static boolean hasFutures(Object value) {
        return value instanceof Map<?, ?> map && !map.isEmpty()
            && map.values().iterator().next() instanceof KafkaFuture<?>;
    }

    static String failure(Throwable e) {
        while ((e instanceof ExecutionException || e instanceof InvocationTargetException) && e.getCause() != null) {
            e = e.getCause();
        }
        return e.getClass().getSimpleName();
    }

    static String show(Object value) {
        if (value instanceof Throwable e) {
            return failure(e);
        }
        if (value instanceof Map<?, ?> map) {
            return map.entrySet().stream().map(e -> show(e.getKey()) + "=" + show(e.getValue())).sorted()
                .collect(Collectors.joining(", ", "{", "}"));
        }
        if (value instanceof Collection<?> all) {
            return all.stream().map(AdminCheck::show).sorted().collect(Collectors.joining(", ", "[", "]"));
        }
        if (value instanceof Optional<?> o) {
            return o.map(AdminCheck::show).orElse("none");
        }
        if (value instanceof Config c) {
            return show(c.entries().stream().filter(e -> !e.isDefault()).toList());
        }
        if (value instanceof ConfigEntry e) {
            return e.name() + "=" + e.value() + " from " + e.source() + (e.isReadOnly() ? " read-only" : "")
                + (e.isSensitive() ? " sensitive" : "") + " " + e.type() + " " + e.synonyms().size() + " synonyms";
        }
        if (value instanceof LogDirDescription d) {
            return "error=" + d.error() + " replicas=" + show(d.replicaInfos());
        }
        if (value instanceof DeletedRecords deleted) {
            return "low watermark " + deleted.lowWatermark();
        }
        if (value instanceof byte[] bytes) {
            return bytes.length + " bytes";
        }
        return String.valueOf(value);
    }

    /** Puts words in place of what may differ between two servers and two runs. */
    String plain(String text) {
        for (Map.Entry<String, String> word : words.entrySet()) {
            text = text.replace(word.getKey(), word.getValue());
        }
        text = Pattern.compile("(?<=[oO]perations=\\[|topicPartitions=)[\\w, -]+").matcher(text).replaceAll(
            m -> Arrays.stream(m.group().split(", ?")).sorted().collect(Collectors.joining(", ")));
        return text.replaceAll("(id|host|advertisedListeners) ?[=:] ?127\\.0\\.0\\.1:\\d+", "$1=ADDRESS")
            .replaceAll("127\\.0\\.0\\.1:\\d+ \\(id: -?\\d+", "ADDRESS (id: N")
            .replaceAll("\\b[A-Za-z0-9_-]*-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\\b", "MEMBER")
            .replaceAll("(memberId|consumerId)=[A-Za-z0-9_-]{22}", "$1=MEMBER")
            .replaceAll("\\b1[6-9]\\d{11}\\b", "TIME")
            .replaceAll("(?i)(producerId|producer id|timestamp|Millis)=\\d+", "$1=N")
            .replaceAll("(topicId|id|topic ID|topic id|directoryId)([=: ]+)[A-Za-z0-9_-]{22}", "$1$2UUID")
            .replaceAll("size=[1-9]\\d*", "size=N")
            .replaceAll("(totalBytes|usableBytes)=\\S+", "$1=N")
            .replaceAll("host='?/?127\\.0\\.0\\.1'?", "host=ADDRESS");
    }

    void topics() {
        run("createTopics", () -> admin.createTopics(List.of(
            new NewTopic("ac-one", 3, (short) 1), new NewTopic("ac-two", Optional.empty(), Optional.empty()),
            new NewTopic("ac-placed", Map.of(0, List.of(self))).configs(Map.of("retention.ms", "1000"))
        )).values());
        run("createTopics config", () -> admin.createTopics(List.of(new NewTopic("ac-three", 2, (short) 1)
            .configs(Map.of("cleanup.policy", "compact", "segment.bytes", "2097152")))).config("ac-three"));
        run("createTopics counts", () -> admin.createTopics(List.of(new NewTopic("ac-four", 4, (short) 1)))
            .numPartitions("ac-four"));
        run("createTopics bad", () -> admin.createTopics(List.of(
            new NewTopic("ac-one", 1, (short) 1), new NewTopic("ac bad name", 1, (short) 1),
            new NewTopic("", 1, (short) 1), new NewTopic("..", 1, (short) 1),
            new NewTopic("x".repeat(250), 1, (short) 1),
            new NewTopic("ac-none", 0, (short) 1), new NewTopic("ac-repl", 1, (short) 3),
            new NewTopic("ac-place", Map.of(0, List.of(77))), new NewTopic("ac-gap", Map.of(1, List.of(self))),
            new NewTopic("ac-dup", Map.of(0, List.of(self, self))),
            new NewTopic("ac-conf", 1, (short) 1).configs(Map.of("no.such.config", "1")),
            new NewTopic("ac-val", 1, (short) 1).configs(Map.of("retention.ms", "soon")))).values());
        run("createTopics validate", () -> admin.createTopics(List.of(new NewTopic("ac-dry", 1, (short) 1)),
            new CreateTopicsOptions().validateOnly(true)).values());
        run("listTopics", () -> admin.listTopics().names().get().stream().filter(n -> n.startsWith("ac-")).toList());
        run("listTopics internal", () -> admin.listTopics(new ListTopicsOptions().listInternal(true)).listings().get()
            .stream().filter(TopicListing::isInternal).map(TopicListing::name).toList());
        run("describeTopics", () -> admin.describeTopics(List.of("ac-one", "ac-absent", "ac-placed", "")));
        run("describeTopics operations", () -> admin.describeTopics(List.of("ac-one"),
            new DescribeTopicsOptions().includeAuthorizedOperations(true).partitionSizeLimitPerResponse(1)));
        run("describeTopics by id", () -> admin.describeTopics(TopicCollection.ofTopicIds(List.of(
            new Uuid(1, 2)))));
        run("createPartitions", () -> admin.createPartitions(Map.of("ac-four", NewPartitions.increaseTo(6),
            "ac-absent", NewPartitions.increaseTo(2), "ac-one", NewPartitions.increaseTo(1),
            "ac-three", NewPartitions.increaseTo(2))));
        run("createPartitions placed", () -> admin.createPartitions(Map.of(
            "ac-two", NewPartitions.increaseTo(3, List.of(List.of(self), List.of(77))),
            "ac-four", NewPartitions.increaseTo(9, List.of(List.of(self))))));
        run("createPartitions validate", () -> admin.createPartitions(Map.of("ac-four", NewPartitions.increaseTo(7)),
            new CreatePartitionsOptions().validateOnly(true)));
    }

    void records() throws Exception {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "linger.ms", 0));
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (int i = 0; i < 10; i++) {
                producer.send(new ProducerRecord<>("ac-one", 0, 1000L + i, "k" + i, "v")).get();
            }
        }
        for (OffsetSpec spec : List.of(OffsetSpec.earliest(), OffsetSpec.latest(), OffsetSpec.maxTimestamp(),
            OffsetSpec.forTimestamp(1004), OffsetSpec.forTimestamp(99999), OffsetSpec.earliestLocal(),
            OffsetSpec.latestTiered(), OffsetSpec.earliestPendingUpload())) {
            run("listOffsets " + spec.getClass().getSimpleName(), () -> all(T0, tp -> admin.listOffsets(
                Map.of(tp, spec)).partitionResult(tp)));
        }
        run("listOffsets committed", () -> admin.listOffsets(Map.of(T0, OffsetSpec.latest()), new ListOffsetsOptions(
            IsolationLevel.READ_COMMITTED)).all());
        run("listOffsets absent", () -> admin.listOffsets(Map.of(NO_PARTITION, OffsetSpec.latest()),
            new ListOffsetsOptions().timeoutMs(2000)).partitionResult(NO_PARTITION));
        run("deleteRecords", () -> admin.deleteRecords(Map.of(T0, RecordsToDelete.beforeOffset(4),
            T1, RecordsToDelete.beforeOffset(1))));
        run("deleteRecords all", () -> admin.deleteRecords(Map.of(T0, RecordsToDelete.beforeOffset(-1))));
        run("deleteRecords compacted", () -> admin.deleteRecords(Map.of(new TopicPartition("ac-three", 0),
            RecordsToDelete.beforeOffset(0))));
        run("deleteRecords absent", () -> admin.deleteRecords(Map.of(NO_TOPIC, RecordsToDelete.beforeOffset(0)),
            new DeleteRecordsOptions().timeoutMs(2000)));
    }

    Map<Object, Object> all(TopicPartition tp, java.util.function.Function<TopicPartition, Object> call) {
        return Map.of(tp, call.apply(tp));
    }

    void configs() {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, "ac-one");
        ConfigResource absent = new ConfigResource(ConfigResource.Type.TOPIC, "ac-absent");
        ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, "" + self);
        ConfigResource brokers = new ConfigResource(ConfigResource.Type.BROKER, "");
        ConfigResource other = new ConfigResource(ConfigResource.Type.BROKER, "77");
        ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, "ac-group");
        ConfigResource metrics = new ConfigResource(ConfigResource.Type.CLIENT_METRICS, "ac-metrics");
        ConfigResource logger = new ConfigResource(ConfigResource.Type.BROKER_LOGGER, "" + self);
        run("incrementalAlterConfigs topic", () -> admin.incrementalAlterConfigs(Map.of(topic, List.of(
            set("retention.ms", "600000"), set("cleanup.policy", "delete"), append("cleanup.policy", "compact")))));
        run("incrementalAlterConfigs other", () -> admin.incrementalAlterConfigs(Map.of(
            group, List.of(set("consumer.session.timeout.ms", "50000")),
            metrics, List.of(set("interval.ms", "5000"), set("metrics", "org.apache.kafka.")),
            brokers, List.of(set("log.retention.ms", "900000000")))));
        for (ConfigResource r : List.of(topic, group, metrics, brokers)) {
            run("describeConfigs " + r, () -> admin.describeConfigs(List.of(r), new DescribeConfigsOptions()
                .includeSynonyms(true)));
        }
        run("describeConfigs absent", () -> admin.describeConfigs(List.of(absent)).values());
        run("describeConfigs nothing", () -> admin.describeConfigs(List.of(
            new ConfigResource(ConfigResource.Type.GROUP, ""), new ConfigResource(ConfigResource.Type.TOPIC, ""),
            new ConfigResource(ConfigResource.Type.CLIENT_METRICS, ""))).values());
        run("describeConfigs broker 77", () -> admin.describeConfigs(List.of(other), new DescribeConfigsOptions()
            .timeoutMs(2000)).values());
        run("describeConfigs documentation", () -> admin.describeConfigs(List.of(topic), new DescribeConfigsOptions()
            .includeDocumentation(true)).all().get().get(topic).entries().stream().filter(e ->
            e.documentation() == null).map(ConfigEntry::name).toList());
        for (ConfigResource r : List.of(topic, group, metrics)) {
            run("describeConfigs names " + r, () -> admin.describeConfigs(List.of(r)).all().get().get(r).entries()
                .stream().map(e -> e.name() + "=" + e.value() + " " + e.source() + " " + e.type()).toList());
        }
        run("describeConfigs broker names", () -> admin.describeConfigs(List.of(broker)).all().get().get(broker)
            .entries().stream().collect(Collectors.toMap(ConfigEntry::name, e -> e.type() + " " + e.isReadOnly())));
        run("describeConfigs logger", () -> !admin.describeConfigs(List.of(logger)).all().get().get(logger).entries()
            .isEmpty());
        for (AlterConfigOp op : List.of(set("no.such.config", "1"), set("retention.ms", "soon"),
            set("retention.ms", "-2"), append("retention.ms", "1"), set("cleanup.policy", "both"),
            new AlterConfigOp(new ConfigEntry("cleanup.policy", "compact"), AlterConfigOp.OpType.SUBTRACT),
            new AlterConfigOp(new ConfigEntry("retention.ms", ""), AlterConfigOp.OpType.DELETE),
            set("min.insync.replicas", "0"), set("compression.type", "brotli"), set("segment.bytes", "1"))) {
            run("incrementalAlterConfigs " + op, () -> admin.incrementalAlterConfigs(Map.of(topic, List.of(op))));
        }
        run("incrementalAlterConfigs absent", () -> admin.incrementalAlterConfigs(Map.of(absent, List.of(
            set("retention.ms", "1")))));
        run("incrementalAlterConfigs twice", () -> admin.incrementalAlterConfigs(Map.of(topic, List.of(
            set("retention.ms", "1"), set("retention.ms", "2")))));
        run("incrementalAlterConfigs read-only", () -> admin.incrementalAlterConfigs(Map.of(broker, List.of(
            set("log.dirs", "/nowhere")))));
        run("incrementalAlterConfigs broker", () -> admin.incrementalAlterConfigs(Map.of(broker, List.of(
            set("log.cleaner.threads", "none")))));
        run("incrementalAlterConfigs group", () -> admin.incrementalAlterConfigs(Map.of(group, List.of(
            set("consumer.session.timeout.ms", "1")))));
        run("incrementalAlterConfigs metrics", () -> admin.incrementalAlterConfigs(Map.of(metrics, List.of(
            set("interval.ms", "1")))));
        run("incrementalAlterConfigs validate", () -> admin.incrementalAlterConfigs(Map.of(topic, List.of(
            set("retention.ms", "5"))), new AlterConfigsOptions().validateOnly(true)));
        run("listConfigResources", () -> admin.listConfigResources(Set.of(ConfigResource.Type.GROUP,
            ConfigResource.Type.CLIENT_METRICS, ConfigResource.Type.BROKER), new ListConfigResourcesOptions()));
        run("listConfigResources all", () -> admin.listConfigResources().all().get().stream().filter(r ->
            r.name().startsWith("ac-")).toList());
        run("listClientMetricsResources", () -> admin.listClientMetricsResources());
        run("incrementalAlterConfigs delete", () -> admin.incrementalAlterConfigs(Map.of(
            group, List.of(delete("consumer.session.timeout.ms")),
            metrics, List.of(delete("interval.ms"), delete("metrics")),
            brokers, List.of(delete("log.retention.ms")), topic, List.of(delete("cleanup.policy")))));
        run("listClientMetricsResources after", () -> admin.listClientMetricsResources());
    }

    static AlterConfigOp set(String name, String value) {
        return new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET);
    }

    static AlterConfigOp append(String name, String value) {
        return new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.APPEND);
    }

    static AlterConfigOp delete(String name) {
        return new AlterConfigOp(new ConfigEntry(name, null), AlterConfigOp.OpType.DELETE);
    }

    void groups(String protocol) throws Exception {
        String id = "ac-" + protocol;
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "group.id", id,
            "group.protocol", protocol, "client.id", "ac-client", "auto.offset.reset", "earliest"));
        if (protocol.equals("classic")) {
            settings.put("group.instance.id", "ac-instance");
        }
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of("ac-one"));
            long deadline = System.currentTimeMillis() + 20000;
            while (consumer.assignment().size() < 3 && System.currentTimeMillis() < deadline) {
                consumer.poll(Duration.ofMillis(100));
            }
            consumer.commitSync(Map.of(T0, new OffsetAndMetadata(3, Optional.of(0), "note")));
            run(id + " describeConsumerGroups", () -> admin.describeConsumerGroups(List.of(id),
                new DescribeConsumerGroupsOptions().includeAuthorizedOperations(true)));
            run(id + " describeClassicGroups", () -> admin.describeClassicGroups(List.of(id)));
            run(id + " describeShareGroups", () -> admin.describeShareGroups(List.of(id)));
            run(id + " describeStreamsGroups", () -> admin.describeStreamsGroups(List.of(id)));
            run(id + " listGroups", () -> admin.listGroups().all().get().stream().filter(g ->
                g.groupId().equals(id)).toList());
            run(id + " delete", () -> admin.deleteConsumerGroups(List.of(id)).deletedGroups());
            run(id + " alter", () -> admin.alterConsumerGroupOffsets(id, Map.of(T0, new OffsetAndMetadata(1))).all());
            run(id + " deleteOffsets", () -> admin.deleteConsumerGroupOffsets(id, Set.of(T0)).all());
            if (protocol.equals("classic")) {
                run(id + " remove", () -> admin.removeMembersFromConsumerGroup(id, new
                    RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("ac-unknown")))).all());
                run(id + " removed", () -> admin.removeMembersFromConsumerGroup(id, new
                    RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("ac-instance")))).all());
            } else {
                run(id + " removeMembers", () -> admin.removeMembersFromConsumerGroup(id, new
                    RemoveMembersFromConsumerGroupOptions()).all());
            }
        } catch (RuntimeException e) {
            System.out.println(id + " consumer: " + plain(failure(e)));
        }
    }

    void emptyGroups() {
        run("alterConsumerGroupOffsets", () -> admin.alterConsumerGroupOffsets("ac-empty", Map.of(
            T0, new OffsetAndMetadata(5, Optional.of(0), "note"), T1, new OffsetAndMetadata(6))));
        run("alterConsumerGroupOffsets bad", () -> admin.alterConsumerGroupOffsets("ac-empty", Map.of(
            NO_PARTITION, new OffsetAndMetadata(5), NO_TOPIC, new OffsetAndMetadata(6),
            T0, new OffsetAndMetadata(5, "n".repeat(5000)))).all());
        run("listConsumerGroupOffsets", () -> admin.listConsumerGroupOffsets("ac-empty").all());
        run("listConsumerGroupOffsets many", () -> admin.listConsumerGroupOffsets(Map.of(
            "ac-empty", new ListConsumerGroupOffsetsSpec().topicPartitions(List.of(T0, NO_TOPIC)),
            "ac-absent", new ListConsumerGroupOffsetsSpec())).all());
        run("describeConsumerGroups", () -> admin.describeConsumerGroups(List.of("ac-empty", "ac-absent", "")));
        run("describeClassicGroups", () -> admin.describeClassicGroups(List.of("ac-empty", "ac-absent")));
        run("listConsumerGroups", () -> admin.listConsumerGroups().all().get().stream().filter(g ->
            g.groupId().startsWith("ac-")).toList());
        run("listConsumerGroups states", () -> admin.listConsumerGroups(new ListConsumerGroupsOptions()
            .inGroupStates(Set.of(GroupState.STABLE))).all().get().stream().filter(g ->
            g.groupId().startsWith("ac-")).toList());
        run("listGroups types", () -> admin.listGroups(new ListGroupsOptions().withTypes(Set.of(GroupType.CONSUMER)))
            .all().get().stream().filter(g -> g.groupId().startsWith("ac-")).toList());
        run("deleteConsumerGroupOffsets", () -> admin.deleteConsumerGroupOffsets("ac-empty", Set.of(T0, T1)).all());
        run("deleteConsumerGroupOffsets absent", () -> admin.deleteConsumerGroupOffsets("ac-absent", Set.of(T0)).all());
        run("removeMembersFromConsumerGroup", () -> admin.removeMembersFromConsumerGroup("ac-absent",
            new RemoveMembersFromConsumerGroupOptions()).all());
        run("deleteConsumerGroups", () -> admin.deleteConsumerGroups(List.of("ac-empty", "ac-absent", "ac-classic",
            "ac-consumer")));
    }

    void shareAndStreams() {
        run("alterShareGroupOffsets", () -> admin.alterShareGroupOffsets("ac-share", Map.of(T0, 1L)).all());
        run("listShareGroupOffsets", () -> admin.listShareGroupOffsets(Map.of("ac-share",
            new ListShareGroupOffsetsSpec())).all());
        run("describeShareGroups", () -> admin.describeShareGroups(List.of("ac-share", "ac-absent")));
        run("deleteShareGroupOffsets", () -> admin.deleteShareGroupOffsets("ac-share", Set.of("ac-one")).all());
        run("deleteShareGroups", () -> admin.deleteShareGroups(List.of("ac-share", "ac-absent")));
        run("describeStreamsGroups", () -> admin.describeStreamsGroups(List.of("ac-streams")));
        run("listStreamsGroupOffsets", () -> admin.listStreamsGroupOffsets(Map.of("ac-streams",
            new ListStreamsGroupOffsetsSpec())).all());
        run("alterStreamsGroupOffsets", () -> admin.alterStreamsGroupOffsets("ac-streams", Map.of(T0,
            new OffsetAndMetadata(1))).all());
        run("deleteStreamsGroupOffsets", () -> admin.deleteStreamsGroupOffsets("ac-streams", Set.of(T0)).all());
        run("deleteStreamsGroups", () -> admin.deleteStreamsGroups(List.of("ac-streams")));
    }

    void transactions() throws Exception {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", bootstrap,
            "transactional.id", "ac-tx", "max.block.ms", 8000));
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>("ac-one", 1, "k", "v")).get();
            run("describeProducers", () -> admin.describeProducers(List.of(T1, NO_PARTITION),
                new DescribeProducersOptions().timeoutMs(3000)).partitionResult(T1));
            run("describeProducers broker", () -> admin.describeProducers(List.of(T1), new DescribeProducersOptions()
                .brokerId(77).timeoutMs(2000)).partitionResult(T1));
            run("describeTransactions", () -> admin.describeTransactions(List.of("ac-tx", "ac-absent")).description(
                "ac-tx"));
            run("describeTransactions absent", () -> admin.describeTransactions(List.of("ac-absent")).all());
            run("listTransactions", () -> admin.listTransactions().all().get().stream().filter(t ->
                t.transactionalId().startsWith("ac-")).toList());
            run("listTransactions filtered", () -> admin.listTransactions(new ListTransactionsOptions()
                .filterStates(List.of(TransactionState.ONGOING)).filterOnTransactionalIdPattern("ac-.*")
                .filterOnDuration(0)).all());
            run("listTransactions pattern", () -> admin.listTransactions(new ListTransactionsOptions()
                .filterOnTransactionalIdPattern("(")).all());
            ProducerState state = admin.describeProducers(List.of(T1)).partitionResult(T1).get().activeProducers()
                .get(0);
            run("abortTransaction", () -> admin.abortTransaction(new AbortTransactionSpec(T1, state.producerId(),
                (short) state.producerEpoch(), 0)).all());
            run("abortTransaction bad", () -> admin.abortTransaction(new AbortTransactionSpec(T1, 1234567,
                (short) 0, 0)).all());
            run("forceTerminateTransaction", () -> admin.forceTerminateTransaction("ac-tx").result());
            run("forceTerminateTransaction absent", () -> admin.forceTerminateTransaction("ac-absent-2").result());
            run("fenceProducers", () -> admin.fenceProducers(List.of("ac-tx", "ac-new")).fencedProducers());
            run("commit after fence", () -> {
                producer.commitTransaction();
                return "committed";
            });
        } catch (RuntimeException e) {
            System.out.println("transactions: " + plain(failure(e)));
        }
    }

    void cluster() {
        run("describeCluster", () -> admin.describeCluster(new DescribeClusterOptions()
            .includeAuthorizedOperations(true).includeFencedBrokers(true)));
        run("describeFeatures", () -> {
            FeatureMetadata f = admin.describeFeatures().featureMetadata().get();
            return show(f.finalizedFeatures()) + " " + show(f.supportedFeatures());
        });
        run("updateFeatures bad", () -> admin.updateFeatures(Map.of("no.such.feature",
            new FeatureUpdate((short) 1, FeatureUpdate.UpgradeType.UPGRADE))));
        run("updateFeatures validate", () -> admin.updateFeatures(Map.of("group.version",
            new FeatureUpdate((short) 1, FeatureUpdate.UpgradeType.UPGRADE)), new UpdateFeaturesOptions()
            .validateOnly(true)));
        run("describeMetadataQuorum", () -> {
            QuorumInfo info = admin.describeMetadataQuorum().quorumInfo().get();
            return info.leaderId() + " " + info.voters().size() + " " + info.observers().size() + " "
                + info.nodes().size();
        });
        run("describeLogDirs", () -> admin.describeLogDirs(List.of(self)).allDescriptions().get().values().stream()
            .flatMap(m -> m.values().stream()).map(d -> "error=" + d.error() + " total=" + d.totalBytes().isPresent()
                + " usable=" + d.usableBytes().isPresent() + " replicas=" + show(d.replicaInfos().entrySet().stream()
                .filter(e -> e.getKey().topic().startsWith("ac-")).collect(Collectors.toMap(Map.Entry::getKey,
                    e -> e.getValue().toString())))).toList());
        run("describeReplicaLogDirs", () -> {
            var infos = admin.describeReplicaLogDirs(List.of(new TopicPartitionReplica("ac-one", 0, self),
                new TopicPartitionReplica("ac-absent", 0, self))).all().get();
            return infos.entrySet().stream().collect(Collectors.toMap(Map.Entry::getKey, e ->
                (e.getValue().getCurrentReplicaLogDir() == null) + " " + e.getValue().getFutureReplicaLogDir()));
        });
        run("alterReplicaLogDirs", () -> admin.alterReplicaLogDirs(Map.of(
            new TopicPartitionReplica("ac-one", 0, self), "/no/such/folder")));
        run("alterReplicaLogDirs absent", () -> admin.alterReplicaLogDirs(Map.of(
            new TopicPartitionReplica("ac-absent", 0, self), "/no/such/folder")));
        run("electLeaders", () -> admin.electLeaders(ElectionType.PREFERRED, Set.of(T0, NO_TOPIC, NO_PARTITION)));
        run("electLeaders unclean", () -> admin.electLeaders(ElectionType.UNCLEAN, Set.of(T0)));
        run("electLeaders all", () -> admin.electLeaders(ElectionType.PREFERRED, null));
        run("alterPartitionReassignments", () -> admin.alterPartitionReassignments(Map.of(
            T0, Optional.of(new NewPartitionReassignment(List.of(self))),
            T1, Optional.of(new NewPartitionReassignment(List.of(77))),
            new TopicPartition("ac-one", 2), Optional.empty(), NO_TOPIC, Optional.of(new NewPartitionReassignment(
                List.of(self))))));
        run("alterPartitionReassignments twice", () -> admin.alterPartitionReassignments(Map.of(
            T0, Optional.of(new NewPartitionReassignment(List.of(self, self))),
            T1, Optional.of(new NewPartitionReassignment(List.of())))));
        run("listPartitionReassignments", () -> admin.listPartitionReassignments());
        run("listPartitionReassignments some", () -> admin.listPartitionReassignments(Set.of(T0, NO_TOPIC)));
        run("unregisterBroker", () -> admin.unregisterBroker(77));
        run("unregisterController", () -> admin.unregisterController(77));
        run("addRaftVoter", () -> admin.addRaftVoter(78, new Uuid(3, 4), Set.of(new RaftVoterEndpoint("CONTROLLER",
            "127.0.0.1", 1)), new AddRaftVoterOptions().timeoutMs(3000)));
        run("removeRaftVoter", () -> admin.removeRaftVoter(78, new Uuid(3, 4), new RemoveRaftVoterOptions()
            .timeoutMs(3000)));
        run("clientInstanceId", () -> admin.clientInstanceId(Duration.ofSeconds(5)) != null);
        run("metrics", () -> admin.metrics().isEmpty());
    }

    void security() {
        AclBinding acl = new AclBinding(new ResourcePattern(ResourceType.TOPIC, "ac-one", PatternType.LITERAL),
            new AccessControlEntry("User:ac", "*", AclOperation.READ, AclPermissionType.ALLOW));
        run("createAcls", () -> admin.createAcls(List.of(acl)));
        run("describeAcls", () -> admin.describeAcls(AclBindingFilter.ANY));
        run("deleteAcls", () -> admin.deleteAcls(List.of(AclBindingFilter.ANY)).all());
        run("createDelegationToken", () -> admin.createDelegationToken());
        run("renewDelegationToken", () -> admin.renewDelegationToken(new byte[] {1}));
        run("expireDelegationToken", () -> admin.expireDelegationToken(new byte[] {1}));
        run("describeDelegationToken", () -> admin.describeDelegationToken());
        ClientQuotaEntity user = new ClientQuotaEntity(Map.of(ClientQuotaEntity.USER, "ac-user"));
        run("alterClientQuotas", () -> admin.alterClientQuotas(List.of(new ClientQuotaAlteration(user, List.of(
            new ClientQuotaAlteration.Op("consumer_byte_rate", 1000.0))), new ClientQuotaAlteration(
            new ClientQuotaEntity(Map.of(ClientQuotaEntity.CLIENT_ID, "ac-id")), List.of(
            new ClientQuotaAlteration.Op("no_such_rate", 1.0))))));
        run("describeClientQuotas", () -> admin.describeClientQuotas(ClientQuotaFilter.contains(List.of(
            ClientQuotaFilterComponent.ofEntity(ClientQuotaEntity.USER, "ac-user")))));
        run("alterClientQuotas remove", () -> admin.alterClientQuotas(List.of(new ClientQuotaAlteration(user, List.of(
            new ClientQuotaAlteration.Op("consumer_byte_rate", null))))));
        run("describeClientQuotas after", () -> admin.describeClientQuotas(ClientQuotaFilter.all()));
        run("alterUserScramCredentials", () -> admin.alterUserScramCredentials(List.of(
            new UserScramCredentialUpsertion("ac-user", new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096),
                "secret"), new UserScramCredentialUpsertion("ac-few", new ScramCredentialInfo(
                ScramMechanism.SCRAM_SHA_512, 10), "secret"), new UserScramCredentialDeletion("ac-absent",
                ScramMechanism.SCRAM_SHA_256))));
        run("describeUserScramCredentials", () -> admin.describeUserScramCredentials());
        run("describeUserScramCredentials one", () -> admin.describeUserScramCredentials(List.of("ac-user",
            "ac-absent")).description("ac-absent"));
        run("alterUserScramCredentials delete", () -> admin.alterUserScramCredentials(List.of(
            new UserScramCredentialDeletion("ac-user", ScramMechanism.SCRAM_SHA_256))));
    }

    void end() {
        run("deleteTopics", () -> admin.deleteTopics(List.of("ac-one", "ac-two", "ac-three", "ac-four", "ac-placed",
            "ac-absent", "")).topicNameValues());
        run("deleteTopics by id", () -> admin.deleteTopics(TopicCollection.ofTopicIds(List.of(new Uuid(1, 2))))
            .topicIdValues());
        run("deleteTopics internal", () -> admin.deleteTopics(List.of("__consumer_offsets"), new DeleteTopicsOptions()
            .timeoutMs(3000)).topicNameValues());
        Set<String> names = new TreeSet<>();
        for (Method m : Admin.class.getMethods()) {
            names.add(m.getName());
        }
        names.removeAll(called);
        names.removeAll(Set.of("close", "create", "registerMetricForSubscription", "unregisterMetricFromSubscription"));
        System.out.println("methods not called: " + names);
    }

    public static void main(String[] arguments) throws Exception {
        AdminCheck check = new AdminCheck(arguments[0]);
        check.topics();
        check.records();
        check.configs();
        check.groups("classic");
        check.groups("consumer");
        check.emptyGroups();
        check.shareAndStreams();
        check.transactions();
        check.cluster();
        check.security();
        check.end();
        System.exit(0);
    }
}
