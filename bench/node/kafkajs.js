/**
 * kafkajs with lz4, which it has not itself: lz4-napi is the fastest codec that loads on Node 20. Its
 * synchronous calls need a little less CPU than its promises, for which kafkajs only waits. (Frames of
 * 500 records: 0.14 ms of CPU, as promises 0.17 ms; lz4js 0.28 ms. lz4, which kafkajs-lz4 and
 * lz4-kafkajs need, does not load unless it is compiled; @2l/kafkajs-lz4 is the promises of lz4-napi.)
 */

import kafkajs from "kafkajs";
import { compressFrameSync, decompressFrameSync } from "lz4-napi";

const { CompressionCodecs, CompressionTypes, Kafka, logLevel } = kafkajs;

CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async (encoder) => compressFrameSync(encoder.buffer),
  decompress: async (buffer) => decompressFrameSync(buffer),
});

export const LZ4 = CompressionTypes.LZ4;

/** @param {string} brokers addresses, joined by commas */
export function kafka(brokers) {
  return new Kafka({ clientId: "bench", brokers: brokers.split(","), logLevel: logLevel.ERROR });
}
