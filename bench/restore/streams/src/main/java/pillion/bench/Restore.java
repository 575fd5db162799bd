package pillion.bench;

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.HexFormat;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * Restores an in-memory store of a Kafka Streams application from its changelog and says how long it
 * took: from the first onRestoreStart (the group is joined, tasks are given, the ends of the logs are
 * known) to the last onRestoreEnd. Settings are Kafka Streams' defaults. The store is the plain
 * key-value one, which restores with less work than one with timestamps.
 *
 * <p>Restore BROKERS APPLICATION SOURCE STORE PARTITIONS STATE-DIR FIGURES
 */
public final class Restore {
    private static final OperatingSystemMXBean OS =
            (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    public static void main(String[] args) throws Exception {
        String store = args[3];
        Window window = new Window(Integer.parseInt(args[4]));
        Properties config = new Properties();
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, args[1]);
        config.put(StreamsConfig.STATE_DIR_CONFIG, args[5]);
        // So that the next run needs not wait until this one is missed.
        config.put("internal.leave.group.on.close", true);

        CountDownLatch running = new CountDownLatch(1);
        try (KafkaStreams application = new KafkaStreams(topology(args[2], store), config)) {
            application.setGlobalStateRestoreListener(window);
            application.setStateListener((now, before) -> {
                if (now == KafkaStreams.State.RUNNING) {
                    running.countDown();
                }
            });
            application.start();
            await(window.whole, "the table was not whole in time");
            await(running, "the application did not run in time");
            ReadOnlyKeyValueStore<Bytes, byte[]> table = application.store(
                    StoreQueryParameters.fromNameAndType(store, QueryableStoreTypes.keyValueStore()));
            window.write(Path.of(args[6]), table);
        }
    }

    private static void await(CountDownLatch latch, String otherwise) throws InterruptedException {
        if (!latch.await(5, TimeUnit.MINUTES)) {
            throw new IllegalStateException(otherwise);
        }
    }

    /** A source and a processor that owns the store; the source is empty. */
    private static Topology topology(String source, String store) {
        return new Topology()
                .addSource("source", Serdes.Bytes().deserializer(), Serdes.ByteArray().deserializer(), source)
                .addProcessor("processor", Nothing::new, "source")
                .addStateStore(
                        Stores.keyValueStoreBuilder(
                                        Stores.inMemoryKeyValueStore(store), Serdes.Bytes(), Serdes.ByteArray())
                                .withLoggingEnabled(Map.of())
                                .withCachingDisabled(),
                        "processor");
    }

    private static final class Nothing implements Processor<Bytes, byte[], Void, Void> {
        @Override
        public void process(Record<Bytes, byte[]> record) {}
    }

    /** From process ready to table whole. */
    private static final class Window implements StateRestoreListener {
        final CountDownLatch whole;
        private long began;
        private long seconds;
        private long cpu;
        private long records;

        Window(int partitions) {
            whole = new CountDownLatch(partitions);
        }

        @Override
        public synchronized void onRestoreStart(TopicPartition log, String store, long from, long to) {
            if (began == 0) {
                cpu = OS.getProcessCpuTime();
                began = System.nanoTime();
            }
        }

        @Override
        public void onBatchRestored(TopicPartition log, String store, long at, long count) {}

        @Override
        public synchronized void onRestoreEnd(TopicPartition log, String store, long total) {
            records += total;
            if (whole.getCount() == 1) {
                seconds = System.nanoTime() - began;
                cpu = OS.getProcessCpuTime() - cpu;
            }
            whole.countDown();
        }

        synchronized void write(Path figures, ReadOnlyKeyValueStore<Bytes, byte[]> store) throws Exception {
            double peak = peak();
            TreeMap<Bytes, byte[]> table = new TreeMap<>();
            try (KeyValueIterator<Bytes, byte[]> rows = store.all()) {
                rows.forEachRemaining(row -> table.put(row.key, row.value));
            }
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            for (Map.Entry<Bytes, byte[]> row : table.entrySet()) {
                digest.update(row.getKey().get());
                digest.update((byte) '\n');
                digest.update(row.getValue());
                digest.update((byte) '\n');
            }
            Files.writeString(figures, String.format(
                    "{\"seconds\": %.6f, \"records\": %d, \"keys\": %d, \"digest\": \"%s\", \"cpu\": %.3f, \"rss\": %.1f}",
                    seconds / 1e9, records, table.size(), HexFormat.of().formatHex(digest.digest()), cpu / 1e9, peak));
        }

        private static double peak() throws Exception {
            for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
                if (line.startsWith("VmHWM:")) {
                    return Double.parseDouble(line.replaceAll("[^0-9]", "")) / 1024;
                }
            }
            return 0;
        }
    }
}
