// Package record is the record: the batch format version 2 of the Kafka protocol, read in place and
// written once.
//
// A batch is the unit of the wire, of the disk and of every hot path. Nothing here copies one to
// look at it: Batch is a byte slice with accessors, Iterator walks its records without allocating.
//
// # Path
//
// Reading: Next splits a run of batches, Batch.CheckCRC proves one, Iterator (or Batch.Each, or
// Batch.Records) walks its records, decompressing under a limit; Batch.Scan looks at what a broker
// must know of them without holding them. Writing: Builder.Append, Builder.Build.
//
// # Bytes
//
// All integers are big-endian. Source: the Kafka protocol guide, "Record Batch" and "Record".
//
//	offset size field
//	0      8    baseOffset            \
//	8      4    batchLength            | outside the CRC: a broker
//	12     4    partitionLeaderEpoch   | rewrites them in place
//	16     1    magic (2)             /
//	17     4    crc                   CRC-32C of byte 21 to the end
//	21     2    attributes            bits 0-2 codec, 3 timestamp type, 4 transactional,
//	                                  5 control, 6 base timestamp is a delete horizon
//	23     4    lastOffsetDelta
//	27     8    baseTimestamp         ms since 1970, or the delete horizon (bit 6)
//	35     8    maxTimestamp
//	43     8    producerId            -1 = none
//	51     2    producerEpoch
//	53     4    baseSequence
//	57     4    recordCount
//	61     ...  records, compressed as a whole by the codec
//
// A record, all numbers but the attributes zig-zag varints:
//
//	length | attributes int8 (0) | timestampDelta | offsetDelta | keyLength (-1 null) key
//	| valueLength (-1 null) value | headerCount | { keyLength key valueLength (-1 null) value }*
//
// # Invariants
//
// A Batch returned by Next or Builder.Build has len(b) == Len() >= HeaderSize and magic 2. No
// length read from bytes is allocated before it is compared with the bytes that are there, and no
// decompression writes more than the caller's limit.
//
// # Goroutines
//
// None. Values are for one goroutine at a time; the pools of compressors are safe for all. Scan
// waits while GOMAXPROCS others decompress.
package record
