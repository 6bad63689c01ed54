import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/** Releases 2.1 to 2.2. */
class Api {
  static Map<String, String> lacks() {
    Map<String, String> lacks = new HashMap<>();
    lacks.put("static", "since 2.3");
    lacks.put("cooperative", "since 2.4");
    lacks.put("kip848", "since 3.7");
    return lacks;
  }

  static void sendOffsets(KafkaProducer<byte[], byte[]> p, KafkaConsumer<byte[], byte[]> c, String group,
      Map<TopicPartition, OffsetAndMetadata> offsets) {
    p.sendOffsetsToTransaction(offsets, group);
  }

  static TopicDescription describeTopic(AdminClient admin, String topic) throws Exception {
    return admin.describeTopics(Collections.singleton(topic)).all().get().get(topic);
  }

  static void setConfig(AdminClient admin, ConfigResource r, String name, String value) throws Exception {
    Config config = new Config(Collections.singleton(new ConfigEntry(name, value)));
    admin.alterConfigs(Collections.singletonMap(r, config)).all().get();
  }

  static ObjectNode describeGroup(ConsumerGroupDescription d, ObjectNode told) {
    return told.put("state", d.state().toString()).put("members", d.members().size());
  }

  static void setGroupOffsets(AdminClient admin, String group, Map<TopicPartition, OffsetAndMetadata> offsets) {
    throw new Adapter.Lacks("since 2.5");
  }

  static void deleteGroupOffsets(AdminClient admin, String group, List<TopicPartition> partitions) {
    throw new Adapter.Lacks("since 2.4");
  }
}
