// Runs golden cases of the streams layer through Kafka Streams, by its own test driver. Arguments: the files. For each
// line of input prints file, number of the case, its setup, the line, and what comes out, with tabs between. A case that
// asks for what Kafka Streams does not have is one line with "-" for the line of input and the reason.
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.function.Function;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TestOutputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;

public class Goldens {
  static final Serde<String> TEXT = Serdes.String();
  /** With its own retention Kafka Streams loses windows that time passes in one step (G7). */
  static final Duration RETENTION = Duration.ofHours(1);
  static final Consumed<String, String> READ = Consumed.with(TEXT, TEXT);

  /** Not something Kafka Streams can be asked for. */
  static final class NotThere extends RuntimeException {
    NotThere(String why) {
      super(why);
    }
  }

  public static void main(String[] files) throws Exception {
    for (String file : files) {
      String setup = null;
      int number = 0;
      for (List<String> block : blocks(Files.readAllLines(Path.of(file)))) {
        if (!block.get(0).equals("feed")) {
          setup = block.get(0);
          continue;
        }
        number++;
        String at = Path.of(file).getFileName() + "\t" + number + "\t" + setup + "\t";
        List<String> lines = block.subList(1, block.indexOf("----"));
        try (Run run = new Run(setup)) {
          for (String line : lines) {
            System.out.println(at + line + "\t" + String.join(", ", run.feed(line)));
          }
        } catch (NotThere e) {
          System.out.println(at + "-\t" + e.getMessage());
        }
      }
    }
  }

  /** The blocks of a file, which end at an empty line, without remarks. */
  static List<List<String>> blocks(List<String> lines) {
    List<List<String>> all = new ArrayList<>();
    List<String> block = new ArrayList<>();
    for (String line : lines) {
      if (line.startsWith("#")) {
        continue;
      }
      if (!line.isEmpty()) {
        block.add(line);
        continue;
      }
      if (!block.isEmpty()) {
        all.add(block);
      }
      block = new ArrayList<>();
    }
    if (!block.isEmpty()) {
      all.add(block);
    }
    return all;
  }

  /** One case on its way. */
  static final class Run implements AutoCloseable {
    final String command;
    final Map<String, String> options = new HashMap<>();
    final TopologyTestDriver driver;
    final TestOutputTopic<String, String> out;
    final Map<String, TestInputTopic<String, String>> inputs = new HashMap<>();

    Run(String setup) {
      String[] words = setup.split(" ");
      command = words[0];
      for (String word : Arrays.copyOfRange(words, 1, words.length)) {
        int equals = word.indexOf('=');
        options.put(equals < 0 ? word : word.substring(0, equals), equals < 0 ? "" : word.substring(equals + 1));
      }
      StreamsBuilder builder = new StreamsBuilder();
      build(builder);
      Properties p = new Properties();
      p.put(StreamsConfig.APPLICATION_ID_CONFIG, "goldens");
      p.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "nowhere:1");
      p.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
      p.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
      p.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, "0");
      // Without these, when something comes out depends on the wall clock.
      p.put("__emit.interval.ms.kstreams.windowed.aggregation__", 0L);
      p.put("__emit.interval.ms.kstreams.outer.join.spurious.results.fix__", 0L);
      driver = new TopologyTestDriver(builder.build(), p, Instant.ofEpochMilli(0));
      out = driver.createOutputTopic("out", new StringDeserializer(), new StringDeserializer());
    }

    void only(String... known) {
      for (String name : options.keySet()) {
        if (!Set.of(known).contains(name)) {
          throw new NotThere("no " + name);
        }
      }
    }

    boolean has(String name) {
      return options.containsKey(name);
    }

    Duration span(String name) {
      return Duration.ofMillis(Long.parseLong(options.getOrDefault(name, "0")));
    }

    void build(StreamsBuilder b) {
      switch (command) {
        case "aggregate" -> aggregate(b);
        case "streams" -> streams(b);
        case "stream-table", "join" -> streamTable(b);
        case "tables" -> tables(b);
        case "foreign" -> foreign(b);
        case "punctuate" -> punctuate(b);
        default -> throw new NotThere("no " + command);
      }
    }

    // ---- Aggregates

    void aggregate(StreamsBuilder b) {
      if (has("table")) {
        tableAggregate(b);
        return;
      }
      only("size", "advance", "grace", "emit", "session", "sliding", "agg", "filter", "partitions");
      String agg = options.getOrDefault("agg", "count");
      if (has("partitions") && !options.get("partitions").equals("1")) {
        throw new NotThere("no order between partitions");
      }
      if (!Set.of("count", "sum").contains(agg)) {
        throw new NotThere("no " + agg);
      }
      if (!has("size") && !has("session") && !has("sliding")) {
        throw new NotThere("not compared without windows");
      }
      KStream<String, String> in = b.stream("in", READ);
      if (has("filter")) {
        in = in.filter((k, v) -> Long.parseLong(v) > span("filter").toMillis());
      }
      KGroupedStream<String, String> grouped = in.groupByKey(Grouped.with(TEXT, TEXT));
      EmitStrategy emit = has("emit") ? EmitStrategy.onWindowClose() : EmitStrategy.onWindowUpdate();
      boolean sum = agg.equals("sum");
      Aggregator<String, String, Long> add = (k, v, n) -> n + (sum ? Long.parseLong(v) : 1);
      boolean inclusive = !has("size");
      KTable<Windowed<String>, Long> table;
      if (has("session")) {
        table = grouped.windowedBy(SessionWindows.ofInactivityGapAndGrace(span("session"), span("grace")))
            .emitStrategy(emit)
            .aggregate(() -> 0L, add, (k, x, y) -> x + y,
                Materialized.<String, Long, SessionStore<Bytes, byte[]>>as("rows").withKeySerde(TEXT)
                    .withValueSerde(Serdes.Long()).withCachingDisabled().withRetention(RETENTION));
      } else {
        TimeWindowedKStream<String, String> windowed;
        if (has("sliding")) {
          windowed = grouped.windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(span("sliding"), span("grace")));
        } else {
          TimeWindows w = TimeWindows.ofSizeAndGrace(span("size"), span("grace"));
          windowed = grouped.windowedBy(has("advance") ? w.advanceBy(span("advance")) : w);
        }
        table = windowed.emitStrategy(emit).aggregate(() -> 0L, add,
            Materialized.<String, Long, WindowStore<Bytes, byte[]>>as("rows").withKeySerde(TEXT)
                .withValueSerde(Serdes.Long()).withCachingDisabled().withRetention(RETENTION));
      }
      table.toStream().process(stamp((w, n) -> {
        String window = "[" + w.window().start() + "," + w.window().end() + (inclusive ? "] " : ") ") + w.key();
        return n == null ? "†" + window : window + "=" + n + "@";
      })).to("out");
    }

    /** Values are "group,number". */
    void tableAggregate(StreamsBuilder b) {
      only("table", "agg");
      if (!options.get("agg").equals("sum")) {
        throw new NotThere("no " + options.get("agg") + " that takes back");
      }
      Function<String, String> group = v -> v.substring(0, v.indexOf(','));
      Function<String, Long> n = v -> Long.parseLong(v.substring(v.indexOf(',') + 1));
      b.table("in", READ)
          .groupBy((k, v) -> KeyValue.pair(group.apply(v).equals("null") ? null : group.apply(v), v),
              Grouped.with(TEXT, TEXT))
          .aggregate(() -> 0L, (k, v, sum) -> sum + n.apply(v), (k, v, sum) -> sum - n.apply(v),
              Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("rows").withKeySerde(TEXT)
                  .withValueSerde(Serdes.Long()).withCachingDisabled())
          .toStream().process(stamp((k, sum) -> sum == null ? "†" + k : k + "=" + sum + "@")).to("out");
    }

    // ---- Joins

    static String pair(String left, String right) {
      return "(" + left + "," + right + ")";
    }

    static String keyed(String key, String value) {
      return (key == null ? "<null>" : key) + ":" + (value == null ? "†" : value) + "@";
    }

    void streams(StreamsBuilder b) {
      only("kind", "within", "before", "after", "grace");
      JoinWindows w = JoinWindows.ofTimeDifferenceAndGrace(span("within"), span("grace"));
      if (has("before") || has("after")) {
        w = JoinWindows.ofTimeDifferenceAndGrace(span("after"), span("grace")).before(span("before"));
      }
      KStream<String, String> left = b.stream("L", READ), right = b.stream("R", READ);
      KStream<String, String> both = b.stream("both", READ);
      StreamJoined<String, String, String> with = StreamJoined.with(TEXT, TEXT, TEXT);
      ValueJoiner<String, String, String> join = Run::pair;
      KStream<String, String> result = switch (options.get("kind")) {
        case "inner" -> left.join(right, join, w, with);
        case "left" -> left.leftJoin(right, join, w, with);
        default -> left.outerJoin(right, join, w, with);
      };
      result.process(stamp(Run::keyed)).to("out");
      if (options.get("kind").equals("inner")) {
        both.join(both, join, w, with).process(stamp(Run::keyed)).to("out");
      }
    }

    KTable<String, String> table(StreamsBuilder b, String topic, boolean versioned, Duration history) {
      if (!versioned) {
        return b.table(topic, READ, Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as("rows-" + topic)
            .withKeySerde(TEXT).withValueSerde(TEXT).withCachingDisabled());
      }
      return b.table(topic, READ, Materialized.<String, String>as(
          Stores.persistentVersionedKeyValueStore("rows-" + topic, history)).withKeySerde(TEXT).withValueSerde(TEXT));
    }

    void streamTable(StreamsBuilder b) {
      only("kind", "history", "grace");
      KTable<String, String> rows = table(b, "R", has("history"), span("history"));
      Joined<String, String, String> with = Joined.with(TEXT, TEXT, TEXT);
      if (has("grace")) {
        with = with.withGracePeriod(span("grace"));
      }
      KStream<String, String> stream = b.stream("L", READ);
      ValueJoiner<String, String, String> join = Run::pair;
      KStream<String, String> result =
          options.get("kind").equals("inner") ? stream.join(rows, join, with) : stream.leftJoin(rows, join, with);
      boolean bare = command.equals("join");
      result.process(stamp((k, v) -> bare ? v + "@" : keyed(k, v))).to("out");
    }

    void tables(StreamsBuilder b) {
      only("kind", "out_of_order");
      boolean versioned = has("out_of_order");
      KTable<String, String> left = table(b, "L", versioned, Duration.ofDays(1));
      KTable<String, String> right = table(b, "R", versioned, Duration.ofDays(1));
      ValueJoiner<String, String, String> join = Run::pair;
      KTable<String, String> result = switch (options.get("kind")) {
        case "inner" -> left.join(right, join);
        case "left" -> left.leftJoin(right, join);
        default -> left.outerJoin(right, join);
      };
      result.toStream().process(stamp(Run::keyed)).to("out");
    }

    void foreign(StreamsBuilder b) {
      only("kind");
      KTable<String, String> left = table(b, "L", false, null), right = table(b, "R", false, null);
      Function<String, String> key = v -> v.equals("null") ? null : v;
      ValueJoiner<String, String, String> join = Run::pair;
      Materialized<String, String, KeyValueStore<Bytes, byte[]>> rows =
          Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as("joined").withKeySerde(TEXT)
              .withValueSerde(TEXT).withCachingDisabled();
      KTable<String, String> result = options.get("kind").equals("inner")
          ? left.join(right, key, join, rows) : left.leftJoin(right, key, join, rows);
      result.toStream().process(stamp(Run::keyed)).to("out");
    }

    void punctuate(StreamsBuilder b) {
      Duration every = span("punctuate");
      b.stream("in", READ).process(() -> new Processor<String, String, String, String>() {
        ProcessorContext<String, String> context;

        @Override
        public void init(ProcessorContext<String, String> c) {
          context = c;
          c.schedule(every, PunctuationType.STREAM_TIME,
              at -> c.forward(new Record<>("fire", "fire " + at, at)));
        }

        @Override
        public void process(Record<String, String> r) {
          context.forward(r);
        }
      }).to("out");
    }

    /** Shows a result; what ends with @ gets the timestamp. */
    static <K, V> org.apache.kafka.streams.processor.api.ProcessorSupplier<K, V, String, String> stamp(
        java.util.function.BiFunction<K, V, String> show) {
      return () -> new Processor<K, V, String, String>() {
        ProcessorContext<String, String> context;

        @Override
        public void init(ProcessorContext<String, String> c) {
          context = c;
        }

        @Override
        public void process(Record<K, V> r) {
          String text = show.apply(r.key(), r.value());
          context.forward(new Record<>("", text.endsWith("@") ? text + r.timestamp() : text, r.timestamp()));
        }
      };
    }

    // ---- Input

    List<String> feed(String line) {
      if (line.equals("end") || line.equals("restart")) {
        throw new NotThere("no " + line + " of input");
      }
      for (String part : line.split("; ")) {
        feedOne(part);
      }
      return out.readValuesToList();
    }

    void feedOne(String line) {
      String topic = command.equals("aggregate") || command.equals("punctuate") ? "in" : "both";
      if (line.startsWith("L ") || line.startsWith("R ")) {
        topic = line.substring(0, 1);
        line = line.substring(2);
      } else if (line.startsWith("p")) {
        throw new NotThere("no order between partitions");
      }
      int blank = line.indexOf(' ');
      long at = Long.parseLong(line.substring(0, blank));
      String[] pair = (line.substring(blank + 1) + "= ").split("=", 3);
      String key = pair[0].equals("<null>") ? null : pair[0];
      String value = pair[1].strip();
      inputs.computeIfAbsent(topic, t -> driver.createInputTopic(t, new StringSerializer(), new StringSerializer()))
          .pipeInput(key, value.equals("†") ? null : value, at);
    }

    @Override
    public void close() {
      driver.close();
    }
  }
}
