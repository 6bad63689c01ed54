// A Kafka Streams application with exactly_once_v2 whose results can be foretold: it counts records by key and joins them
// with a table. Half of the records are there before it starts, half come while it runs; between them the application is
// closed and started anew on its state. Prints what came out. Arguments: bootstrap, a prefix of names, a state folder.
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

public class StreamsCheck {
  static final int records = 4000, keys = 20, partitions = 3;
  static String bootstrap, prefix, stateFolder;

  public static void main(String[] arguments) throws Exception {
    bootstrap = arguments[0];
    prefix = arguments[1];
    stateFolder = arguments[2];
    try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
      List<NewTopic> topics = new ArrayList<>();
      for (String name : Arrays.asList("events", "names", "counts", "joined")) {
        topics.add(new NewTopic(prefix + name, partitions, (short) 1));
      }
      admin.createTopics(topics).all().get();
    }
    for (int k = 0; k < keys; k++) {
      send("names", "key" + k, "name" + k);
    }
    sendEvents(0, records / 2);
    try (KafkaStreams first = start()) {
      waitFor("joined", records / 2);
      first.close(Duration.ofSeconds(30));
    }
    try (KafkaStreams second = start()) {
      sendEvents(records / 2, records);
      waitFor("joined", records);
      waitForCounts();
      second.close(Duration.ofSeconds(30));
    }

    Map<String, Long> counts = new TreeMap<>();
    boolean steps = true;
    for (ConsumerRecord<String, Long> r : read("counts", new LongDeserializer())) {
      steps &= r.value() > counts.getOrDefault(r.key(), 0L);
      counts.put(r.key(), r.value());
    }
    System.out.println("counts " + counts);
    System.out.println("each count above the one before: " + steps);
    List<ConsumerRecord<String, String>> joined = read("joined", new StringDeserializer());
    Map<String, Integer> times = new HashMap<>();
    joined.forEach(r -> times.merge(r.value(), 1, Integer::sum));
    boolean exact = times.size() == records && times.values().stream().allMatch(n -> n == 1);
    for (int i = 0; i < records; i++) {
      exact &= times.containsKey("event" + i + "/name" + i % keys);
    }
    System.out.println("joined " + joined.size() + ", each exactly once: " + exact);
    System.exit(0);
  }

  static KafkaStreams start() {
    StreamsBuilder builder = new StreamsBuilder();
    var strings = Serdes.String();
    KStream<String, String> events = builder.stream(prefix + "events", Consumed.with(strings, strings));
    KTable<String, String> names = builder.table(prefix + "names", Consumed.with(strings, strings));
    // By way of a repartition topic: the key is set anew before it is counted.
    events.selectKey((k, v) -> k).groupByKey().count(Materialized.as("counts"))
        .toStream().to(prefix + "counts", Produced.with(strings, Serdes.Long()));
    events.join(names, (event, name) -> event + "/" + name).to(prefix + "joined", Produced.with(strings, strings));
    Properties p = new Properties();
    p.put(StreamsConfig.APPLICATION_ID_CONFIG, prefix + "app");
    p.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
    p.put(StreamsConfig.STATE_DIR_CONFIG, stateFolder);
    p.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
    p.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
    p.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
    p.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
    p.put(StreamsConfig.MAX_TASK_IDLE_MS_CONFIG, 2000L); // the table's records come before the stream's
    p.put("auto.offset.reset", "earliest");
    System.getProperties().forEach((k, v) -> {
      if (k.toString().startsWith("streams.")) {
        p.put(k.toString().substring("streams.".length()), v);
      }
    });
    KafkaStreams streams = new KafkaStreams(builder.build(), p);
    streams.start();
    return streams;
  }

  static void sendEvents(int from, int to) throws Exception {
    Properties p = new Properties();
    p.put("bootstrap.servers", bootstrap);
    try (KafkaProducer<String, String> producer = new KafkaProducer<>(p, new StringSerializer(), new StringSerializer())) {
      for (int i = from; i < to; i++) {
        producer.send(new ProducerRecord<>(prefix + "events", "key" + i % keys, "event" + i));
      }
    }
  }

  static void send(String topic, String key, String value) throws Exception {
    Properties p = new Properties();
    p.put("bootstrap.servers", bootstrap);
    try (KafkaProducer<String, String> producer = new KafkaProducer<>(p, new StringSerializer(), new StringSerializer())) {
      producer.send(new ProducerRecord<>(prefix + topic, key, value)).get();
    }
  }

  static void waitFor(String topic, int count) throws Exception {
    long deadline = System.currentTimeMillis() + 90_000;
    int came = 0;
    while (came < count) {
      came = (int) read(topic, new StringDeserializer()).stream().map(ConsumerRecord::value).distinct().count();
      if (System.currentTimeMillis() > deadline) {
        System.out.println(topic + ": " + came + " of " + count + " came");
        System.exit(1);
      }
    }
  }

  static void waitForCounts() throws Exception {
    long deadline = System.currentTimeMillis() + 60_000;
    while (System.currentTimeMillis() < deadline) {
      Map<String, Long> counts = new HashMap<>();
      read("counts", new LongDeserializer()).forEach(r -> counts.put(r.key(), r.value()));
      if (counts.size() == keys && counts.values().stream().allMatch(n -> n >= records / keys)) {
        return;
      }
    }
    System.out.println("the counts did not reach " + records / keys + " each");
  }

  static <V> List<ConsumerRecord<String, V>> read(String topic, Deserializer<V> values) {
    Properties p = new Properties();
    p.put("bootstrap.servers", bootstrap);
    p.put("isolation.level", "read_committed");
    List<ConsumerRecord<String, V>> all = new ArrayList<>();
    try (KafkaConsumer<String, V> c = new KafkaConsumer<>(p, new StringDeserializer(), values)) {
      List<TopicPartition> assigned = new ArrayList<>();
      for (int i = 0; i < partitions; i++) {
        assigned.add(new TopicPartition(prefix + topic, i));
      }
      c.assign(assigned);
      c.seekToBeginning(assigned);
      Map<TopicPartition, Long> ends = c.endOffsets(assigned);
      while (assigned.stream().anyMatch(tp -> c.position(tp) < ends.get(tp))) {
        c.poll(Duration.ofMillis(200)).forEach(all::add);
      }
    }
    return all;
  }
}
