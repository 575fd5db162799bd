package pillion.bench;

import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.Stores;

/**
 * Counts records by key in an in-memory store, until it is told to end by SIGTERM. What is measured is
 * seen from outside: committed offsets and the changelog. Settings are Kafka Streams' defaults but for
 * those that are given.
 *
 * <p>Count SOURCE STORE SETTING=VALUE...
 */
public final class Count {
    public static void main(String[] args) throws Exception {
        Properties config = new Properties();
        for (int i = 2; i < args.length; i++) {
            String[] setting = args[i].split("=", 2);
            config.put(setting[0], setting[1]);
        }
        // So that the group is empty at once when this run ends.
        config.put("internal.leave.group.on.close", true);

        CountDownLatch end = new CountDownLatch(1);
        KafkaStreams application = new KafkaStreams(topology(args[0], args[1], config), config);
        application.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            application.close();
            end.countDown();
        }));
        application.start();
        end.await();
    }

    private static Topology topology(String source, String store, Properties config) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(source, Consumed.with(Serdes.String(), Serdes.ByteArray()))
                .groupByKey(Grouped.with(Serdes.String(), Serdes.ByteArray()))
                .count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore(store))
                        .withKeySerde(Serdes.String())
                        .withValueSerde(Serdes.Long()));
        return builder.build(config);
    }
}
