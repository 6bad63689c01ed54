import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/** Releases 2.5 to 3.0. */
class Api {
  static Map<String, String> lacks() {
    return Collections.singletonMap("kip848", "since 3.7");
  }

  static void sendOffsets(KafkaProducer<byte[], byte[]> p, KafkaConsumer<byte[], byte[]> c, String group,
      Map<TopicPartition, OffsetAndMetadata> offsets) {
    p.sendOffsetsToTransaction(offsets, c.groupMetadata());
  }

  static TopicDescription describeTopic(AdminClient admin, String topic) throws Exception {
    return admin.describeTopics(Collections.singleton(topic)).all().get().get(topic);
  }

  static void setConfig(AdminClient admin, ConfigResource r, String name, String value) throws Exception {
    AlterConfigOp set = new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET);
    admin.incrementalAlterConfigs(Collections.singletonMap(r, Collections.singleton(set))).all().get();
  }

  static ObjectNode describeGroup(ConsumerGroupDescription d, ObjectNode told) {
    return told.put("state", d.state().toString()).put("members", d.members().size());
  }

  static void setGroupOffsets(AdminClient admin, String group, Map<TopicPartition, OffsetAndMetadata> offsets)
      throws Exception {
    admin.alterConsumerGroupOffsets(group, offsets).all().get();
  }

  static void deleteGroupOffsets(AdminClient admin, String group, List<TopicPartition> partitions) throws Exception {
    admin.deleteConsumerGroupOffsets(group, new HashSet<>(partitions)).all().get();
  }
}
