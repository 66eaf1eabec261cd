// Publish what was learnt as events: java -cp 'libs/*' Produce.java HOST:PORT [TOPIC]
//
// libs: org.apache.kafka:kafka-clients:4.1.1 and com.fasterxml.jackson.core:jackson-databind:2.19.0
// with what they depend on. Java 17 or newer.

import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.Instant;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.StringSerializer;

public class Produce {
    record Learnt(String scope, String session, int turn, String saidAt, String text) {
        /** Made again of the same turn, an event has the same id, and counts once. */
        Map<String, Object> event() {
            Map<String, Object> event = new LinkedHashMap<>();
            event.put("kind", "remember");
            event.put("schema_version", 1);
            event.put("event_id", session + "/" + turn);
            event.put("scope", scope);
            event.put("text", text);
            event.put("occurred_at", Instant.parse(saidAt).toString());
            return event;
        }
    }

    static final List<Learnt> LEARNT = List.of(
        new Learnt("cafe/ana", "chat-7", 1, "2026-03-01T09:00:00Z",
            "Ana usually orders a flat white."),
        new Learnt("cafe/ana", "chat-7", 2, "2026-03-01T09:01:30Z",
            "Ana is allergic to hazelnuts."),
        new Learnt("cafe/ben", "chat-8", 1, "2026-03-01T09:15:00Z",
            "Ben takes the window seat."),
        new Learnt("cafe/eve", "chat-9", 1, "2026-03-02T08:40:00Z",
            "Eve pays in cash."),
        new Learnt("cafe/max", "chat-10", 4, "2026-03-02T12:05:00Z",
            "Max works at the bakery next door."),
        new Learnt("cafe/zo\u00eb", "chat-11", 1, "2026-03-03T16:20:00Z",
            "Zo\u00eb comes by on Tuesdays."));

    /** Leave partitioner.class unset: the default is the one that memsieve expects. */
    static Map<String, Object> settings(String bootstrap) {
        return Map.of(
            ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap,
            ProducerConfig.ACKS_CONFIG, "all",
            ProducerConfig.ENABLE_IDEMPOTENCE_CONFIG, true);
    }

    public static void main(String[] arguments) throws Exception {
        String topic = arguments.length > 1 ? arguments[1] : "memory.events";
        ObjectMapper json = new ObjectMapper();
        StringSerializer utf8 = new StringSerializer();
        try (var producer = new KafkaProducer<>(settings(arguments[0]), utf8, utf8)) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (Learnt learnt : LEARNT) {
                String value = json.writeValueAsString(learnt.event());
                sent.add(producer.send(new ProducerRecord<>(topic, learnt.scope(), value)));
            }
            for (Future<RecordMetadata> acknowledged : sent) {
                acknowledged.get(30, TimeUnit.SECONDS);
            }
        }
    }
}
