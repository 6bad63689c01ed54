// Adapter of the Java client, for every release from 2.1 on; what differs between releases is in Api.java of a folder
// api-VERSION.
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class Adapter {
  static final ObjectMapper json = new ObjectMapper();
  static final long timeout = 20;

  final String bootstrap;
  AdminClient made;
  final Map<String, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();
  final Map<String, KafkaConsumer<byte[], byte[]>> consumers = new HashMap<>();
  final Map<String, ArrayNode> events = new HashMap<>();

  Adapter(String bootstrap) {
    this.bootstrap = bootstrap;
  }

  /** What the client does not have. */
  static class Lacks extends RuntimeException {
    Lacks(String reason) {
      super(reason);
    }
  }

  public static void main(String[] arguments) throws Exception {
    PrintStream out = new PrintStream(System.out, true, "UTF-8");
    System.setOut(System.err);
    Adapter adapter = new Adapter(arguments[0]);
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      out.println(json.writeValueAsString(adapter.answer(json.readTree(line))));
    }
    Runtime.getRuntime().halt(0); // members that were not closed end as in a crash
  }

  ObjectNode answer(JsonNode r) {
    ObjectNode answer = json.createObjectNode();
    try {
      Object told = getClass().getDeclaredMethod(r.get("op").asText(), JsonNode.class).invoke(this, r);
      answer.set("ok", told == null ? json.createObjectNode() : (JsonNode) told);
    } catch (NoSuchMethodException missing) {
      answer.put("lacks", "");
    } catch (InvocationTargetException wrapped) {
      Throwable failure = wrapped.getCause();
      failure.printStackTrace();
      if (failure instanceof ExecutionException && failure.getCause() != null) {
        failure = failure.getCause();
      }
      answer.put(failure instanceof Lacks ? "lacks" : "error", failure instanceof Lacks ? failure.getMessage() : "" + failure);
    } catch (Exception failure) {
      answer.put("error", "" + failure);
    }
    return answer;
  }

  ObjectNode hello(JsonNode r) throws Exception {
    Properties p = new Properties();
    p.load(KafkaProducer.class.getResourceAsStream("/kafka/kafka-version.properties"));
    ObjectNode told = json.createObjectNode().put("version", p.getProperty("version"));
    Api.lacks().forEach(told.putObject("lacks")::put);
    return told;
  }

  // Producers

  void producer(JsonNode r) {
    Properties p = new Properties();
    p.put("bootstrap.servers", bootstrap);
    p.put("compression.type", r.get("codec").asText());
    p.put("max.request.size", "2000000");
    p.put("linger.ms", "5");
    p.put("delivery.timeout.ms", "20000");
    p.put("request.timeout.ms", "15000");
    p.put("enable.idempotence", "" + (r.path("idempotent").asBoolean() || r.has("transactional_id")));
    if (r.has("transactional_id")) {
      p.put("transactional.id", r.get("transactional_id").asText());
    }
    producers.put(id(r), new KafkaProducer<>(p, new ByteArraySerializer(), new ByteArraySerializer()));
  }

  void send(JsonNode r) throws Exception {
    List<Future<RecordMetadata>> sent = new ArrayList<>();
    for (JsonNode from : r.get("records")) {
      Long timestamp = from.get("t").isNull() ? null : from.get("t").asLong();
      ProducerRecord<byte[], byte[]> record =
          new ProducerRecord<>(topic(r), partition(r), timestamp, bytes(from.get("k")), bytes(from.get("v")));
      for (JsonNode header : from.get("h")) {
        record.headers().add(header.get(0).asText(), bytes(header.get(1)));
      }
      sent.add(producers.get(id(r)).send(record));
    }
    for (Future<RecordMetadata> future : sent) {
      future.get(timeout, TimeUnit.SECONDS);
    }
  }

  void init(JsonNode r) {
    producers.get(id(r)).initTransactions();
  }

  void begin_transaction(JsonNode r) {
    producers.get(id(r)).beginTransaction();
  }

  void commit_transaction(JsonNode r) {
    producers.get(id(r)).commitTransaction();
  }

  void abort_transaction(JsonNode r) {
    producers.get(id(r)).abortTransaction();
  }

  void send_offsets(JsonNode r) {
    Api.sendOffsets(producers.get(id(r)), consumers.get(r.get("consumer").asText()), r.get("group").asText(), offsets(r));
  }

  // Consumers

  Properties consumerConfig(JsonNode r) {
    Properties p = new Properties();
    p.put("bootstrap.servers", bootstrap);
    p.put("isolation.level", r.path("committed").asBoolean() ? "read_committed" : "read_uncommitted");
    p.put("enable.auto.commit", "false");
    p.put("auto.offset.reset", "earliest");
    p.put("fetch.max.wait.ms", "200");
    return p;
  }

  KafkaConsumer<byte[], byte[]> newConsumer(JsonNode r, Properties p) {
    KafkaConsumer<byte[], byte[]> c = new KafkaConsumer<>(p, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    consumers.put(id(r), c);
    events.put(id(r), json.createArrayNode());
    return c;
  }

  void consumer(JsonNode r) {
    Properties p = consumerConfig(r);
    p.put("group.id", r.get("group").asText());
    if (r.has("protocol")) {
      p.put("group.protocol", r.get("protocol").asText());
    } else {
      p.put("session.timeout.ms", r.path("session_ms").asText("6000"));
      p.put("heartbeat.interval.ms", "500");
      String strategy = r.has("assignor") ? "CooperativeStickyAssignor" : "RangeAssignor";
      p.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer." + strategy);
    }
    if (r.has("instance")) {
      p.put("group.instance.id", r.get("instance").asText());
    }
    if (r.has("max_poll")) {
      p.put("max.poll.records", r.get("max_poll").asText());
    }
    newConsumer(r, p).subscribe(Collections.singleton(topic(r)), new Listener(events.get(id(r))));
  }

  static class Listener implements ConsumerRebalanceListener {
    final ArrayNode events;

    Listener(ArrayNode events) {
      this.events = events;
    }

    void tell(String what, Collection<TopicPartition> partitions) {
      ArrayNode list = events.addArray().add(what).addArray();
      partitions.forEach(p -> list.add(p.partition()));
    }

    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
      tell("assigned", partitions);
    }

    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
      tell("revoked", partitions);
    }
  }

  void assign(JsonNode r) {
    List<TopicPartition> partitions = new ArrayList<>();
    r.get("partitions").forEach(p -> partitions.add(new TopicPartition(topic(r), p.asInt())));
    KafkaConsumer<byte[], byte[]> c = newConsumer(r, consumerConfig(r));
    c.assign(partitions);
    c.seekToBeginning(partitions);
  }

  ObjectNode poll(JsonNode r) {
    KafkaConsumer<byte[], byte[]> c = consumers.get(id(r));
    ObjectNode told = json.createObjectNode();
    ArrayNode records = told.putArray("records");
    for (ConsumerRecord<byte[], byte[]> from : c.poll(Duration.ofMillis(r.get("ms").asLong()))) {
      ObjectNode to = records.addObject();
      to.put("k", text(from.key())).put("v", text(from.value())).put("t", from.timestamp());
      to.put("p", from.partition()).put("o", from.offset());
      ArrayNode headers = to.putArray("h");
      for (Header h : from.headers()) {
        headers.addArray().add(h.key()).add(text(h.value()));
      }
    }
    ArrayNode assignment = told.putArray("assignment");
    c.assignment().forEach(p -> assignment.add(p.partition()));
    told.set("events", events.get(id(r)).deepCopy());
    events.get(id(r)).removeAll();
    return told;
  }

  void commit(JsonNode r) {
    consumers.get(id(r)).commitSync(Duration.ofSeconds(timeout));
  }

  void seek(JsonNode r) {
    KafkaConsumer<byte[], byte[]> c = consumers.get(id(r));
    List<TopicPartition> at = Collections.singletonList(topicPartition(r));
    switch (r.get("to").asText()) {
      case "begin":
        c.seekToBeginning(at);
        break;
      case "end":
        c.seekToEnd(at);
        break;
      default:
        c.seek(at.get(0), r.get("to").asLong());
    }
  }

  ObjectNode offset_for_time(JsonNode r) {
    TopicPartition at = topicPartition(r);
    Map<TopicPartition, Long> times = Collections.singletonMap(at, r.get("time").asLong());
    OffsetAndTimestamp found = consumers.get(id(r)).offsetsForTimes(times).get(at);
    return json.createObjectNode().put("offset", found == null ? -1 : found.offset());
  }

  ObjectNode bounds(JsonNode r) {
    TopicPartition at = topicPartition(r);
    KafkaConsumer<byte[], byte[]> c = consumers.get(id(r));
    List<TopicPartition> one = Collections.singletonList(at);
    return json.createObjectNode().put("begin", c.beginningOffsets(one).get(at)).put("end", c.endOffsets(one).get(at));
  }

  void close(JsonNode r) {
    if (consumers.containsKey(id(r))) {
      consumers.remove(id(r)).close();
    } else {
      producers.remove(id(r)).close();
    }
  }

  // Administration

  AdminClient admin() {
    if (made == null) {
      Properties p = new Properties();
      p.put("bootstrap.servers", bootstrap);
      made = AdminClient.create(p);
    }
    return made;
  }

  void create_topic(JsonNode r) throws Exception {
    Map<String, String> configs = new HashMap<>();
    r.get("configs").fields().forEachRemaining(e -> configs.put(e.getKey(), e.getValue().asText()));
    NewTopic topic = new NewTopic(topic(r), r.get("count").asInt(), (short) 1).configs(configs);
    admin().createTopics(Collections.singleton(topic)).all().get(timeout, TimeUnit.SECONDS);
  }

  void delete_topic(JsonNode r) throws Exception {
    admin().deleteTopics(Collections.singleton(topic(r))).all().get(timeout, TimeUnit.SECONDS);
  }

  ObjectNode list_topics(JsonNode r) throws Exception {
    ObjectNode told = json.createObjectNode();
    ArrayNode topics = told.putArray("topics");
    admin().listTopics().names().get(timeout, TimeUnit.SECONDS).forEach(topics::add);
    return told;
  }

  ObjectNode describe_topic(JsonNode r) throws Exception {
    return json.createObjectNode().put("partitions", Api.describeTopic(admin(), topic(r)).partitions().size());
  }

  void add_partitions(JsonNode r) throws Exception {
    NewPartitions more = NewPartitions.increaseTo(r.get("count").asInt());
    admin().createPartitions(Collections.singletonMap(topic(r), more)).all().get(timeout, TimeUnit.SECONDS);
  }

  ObjectNode get_config(JsonNode r) throws Exception {
    ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic(r));
    return json.createObjectNode().put("value", admin().describeConfigs(Collections.singleton(resource)).all()
        .get(timeout, TimeUnit.SECONDS).get(resource).get(r.get("name").asText()).value());
  }

  void set_config(JsonNode r) throws Exception {
    ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic(r));
    Api.setConfig(admin(), resource, r.get("name").asText(), r.get("value").asText());
  }

  ObjectNode list_groups(JsonNode r) throws Exception {
    ObjectNode told = json.createObjectNode();
    ArrayNode groups = told.putArray("groups");
    admin().listConsumerGroups().all().get(timeout, TimeUnit.SECONDS).forEach(g -> groups.add(g.groupId()));
    return told;
  }

  ObjectNode describe_group(JsonNode r) throws Exception {
    String group = r.get("group").asText();
    return Api.describeGroup(admin().describeConsumerGroups(Collections.singleton(group)).all()
        .get(timeout, TimeUnit.SECONDS).get(group), json.createObjectNode());
  }

  void delete_group(JsonNode r) throws Exception {
    List<String> groups = Arrays.asList(r.get("group").asText());
    admin().deleteConsumerGroups(groups).all().get(timeout, TimeUnit.SECONDS);
  }

  void set_group_offsets(JsonNode r) throws Exception {
    Api.setGroupOffsets(admin(), r.get("group").asText(), offsets(r));
  }

  ObjectNode group_offsets(JsonNode r) throws Exception {
    ObjectNode told = json.createObjectNode();
    ObjectNode offsets = told.putObject("offsets");
    Map<TopicPartition, OffsetAndMetadata> found = admin().listConsumerGroupOffsets(r.get("group").asText())
        .partitionsToOffsetAndMetadata().get(timeout, TimeUnit.SECONDS);
    for (JsonNode p : r.get("partitions")) {
      OffsetAndMetadata o = found.get(new TopicPartition(topic(r), p.asInt()));
      offsets.put(p.asText(), o == null ? -1 : o.offset());
    }
    return told;
  }

  void delete_group_offsets(JsonNode r) throws Exception {
    List<TopicPartition> partitions = new ArrayList<>();
    r.get("partitions").forEach(p -> partitions.add(new TopicPartition(topic(r), p.asInt())));
    Api.deleteGroupOffsets(admin(), r.get("group").asText(), partitions);
  }

  void delete_records(JsonNode r) throws Exception {
    RecordsToDelete before = RecordsToDelete.beforeOffset(r.get("before").asLong());
    admin().deleteRecords(Collections.singletonMap(topicPartition(r), before)).all().get(timeout, TimeUnit.SECONDS);
  }

  // Fields of a request

  static String id(JsonNode r) {
    return r.get("id").asText();
  }

  static String topic(JsonNode r) {
    return r.get("topic").asText();
  }

  static int partition(JsonNode r) {
    return r.get("partition").asInt();
  }

  static TopicPartition topicPartition(JsonNode r) {
    return new TopicPartition(topic(r), partition(r));
  }

  static Map<TopicPartition, OffsetAndMetadata> offsets(JsonNode r) {
    Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
    r.get("offsets").fields().forEachRemaining(e ->
        offsets.put(new TopicPartition(topic(r), Integer.parseInt(e.getKey())), new OffsetAndMetadata(e.getValue().asLong())));
    return offsets;
  }

  static byte[] bytes(JsonNode text) {
    return text.isNull() ? null : Base64.getDecoder().decode(text.asText());
  }

  static String text(byte[] bytes) {
    return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
  }
}
