// The application of StreamsCheck in two processes with standby replicas, of which one after the other is killed
// (SIGKILL) and started anew on its state while records come. Prints what came out, which can be foretold.
// Arguments: bootstrap, a prefix of names, a state folder. Settings of the application: -Dstreams.NAME=VALUE.
import java.io.File;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.StringDeserializer;

public class StreamsKill {
  static final int kills = 4, records = StreamsCheck.records;

  public static void main(String[] arguments) throws Exception {
    StreamsCheck.bootstrap = arguments[0];
    StreamsCheck.prefix = arguments[1];
    StreamsCheck.stateFolder = arguments[2];
    if (arguments.length > 3) { // one of the two processes
      StreamsCheck.start();
      return;
    }
    try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
      List<NewTopic> topics = new ArrayList<>();
      for (String name : Arrays.asList("events", "names", "counts", "joined")) {
        topics.add(new NewTopic(arguments[1] + name, StreamsCheck.partitions, (short) 1));
      }
      admin.createTopics(topics).all().get();
    }
    for (int k = 0; k < StreamsCheck.keys; k++) {
      StreamsCheck.send("names", "key" + k, "name" + k);
    }
    Process[] workers = {worker(arguments, 0), worker(arguments, 1)};
    Runtime.getRuntime().addShutdownHook(new Thread(() -> Arrays.stream(workers).forEach(Process::destroyForcibly)));
    StreamsCheck.sendEvents(0, records / 5);
    StreamsCheck.waitFor("joined", records / 5);
    for (int i = 1; i <= kills; i++) {
      StreamsCheck.sendEvents(records * i / 5, records * i / 5 + records / 10);
      Thread.sleep(300); // in the midst of them
      workers[i % 2].destroyForcibly().waitFor();
      StreamsCheck.sendEvents(records * i / 5 + records / 10, records * (i + 1) / 5);
      workers[i % 2] = worker(arguments, i % 2);
      StreamsCheck.waitFor("joined", records * (i + 1) / 5);
    }
    StreamsCheck.waitForCounts();
    for (Process w : workers) {
      System.out.println("worker alive at the end: " + w.isAlive());
    }
    Map<String, Long> counts = new TreeMap<>();
    for (ConsumerRecord<String, Long> r : StreamsCheck.read("counts", new LongDeserializer())) {
      counts.put(r.key(), r.value());
    }
    System.out.println("counts " + counts);
    Map<String, Integer> times = new HashMap<>();
    StreamsCheck.read("joined", new StringDeserializer()).forEach(r -> times.merge(r.value(), 1, Integer::sum));
    System.out.println("joined " + times.size() + " of " + records + ", more than once: "
        + times.values().stream().filter(n -> n > 1).count());
    System.exit(0);
  }

  static Process worker(String[] arguments, int number) throws Exception {
    List<String> command = new ArrayList<>(List.of(ProcessHandle.current().info().command().get(), "-Xmx256m",
        "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", System.getProperty("java.class.path")));
    System.getProperties().forEach((k, v) -> {
      if (k.toString().startsWith("streams.") || k.toString().startsWith("log4j2.")) {
        command.add("-D" + k + "=" + v);
      }
    });
    String folder = arguments[2] + "/" + number;
    new File(folder).mkdirs();
    command.addAll(List.of("StreamsKill", arguments[0], arguments[1], folder, "worker"));
    File log = new File(folder + ".log");
    return new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(
        ProcessBuilder.Redirect.appendTo(log)).start();
  }
}
