// Package pluginpb is the wire contract between host and plugin: the messages of
// millstream.plugin.v1, the packed frame that carries records, and the gRPC codec that moves frames
// without copying them through protobuf.
//
// # Path
//
// A sender packs records with [Encoder] into a pooled buffer, puts it into a Batch, Result or
// Records message, and sends it with [Codec]; frames above [ChunkBytes] travel in pieces
// ([Split]) and are put together again by [Joiner]. The receiver walks the frame with [Decode]
// or [Decoder].
//
// # Frame, version 1
//
//	offset size  field
//	0      2     magic 0x4D 0x46 ("MF")
//	2      1     version, 1
//	3      1     flags, 0
//	4      4     count of records, big endian
//	8      8     base timestamp, ms, big endian
//	16     8     base offset, big endian
//	24     ...   count records
//
//	record:  uvarint index of the topic; the next unused index is followed by
//	         the topic itself: uvarint length, bytes
//	         varint  partition
//	         varint  timestamp - base timestamp
//	         varint  offset - base offset
//	         varint  key length (-1 = null), key
//	         varint  value length (-1 = null), value
//	         varint  number of headers; each: varint key length, key,
//	                 varint value length (-1 = null), value
//
// varint is zigzag, as in Kafka's record v2, and from the timestamp on the fields and their
// order are those of that format. Nothing follows the last record.
//
// # Invariants
//
// Decode(Encode(x)) = x, nulls and empty byte strings kept apart. Every length is checked
// against the bytes that remain before memory is taken. A frame is at most [MaxFrameBytes]
// long.
//
// # Buffers
//
// [GetBuffer] and [PutBuffer] recycle frame buffers. Marshalling a Result or Records hands the
// frame over to gRPC, which returns it to the pool when it is on the wire; the frame of a Batch
// stays the property of the sender, who needs it for sending it again after a crash. A received
// frame belongs to the receiver.
//
// # Goroutines
//
// None, but for [Local]: one for the server side of each in-process stream, joined when the
// stream ends.
//
// # Locks
//
// Window has one, never held over a wait: a taker waits on a channel.
//
// # Files
//
// plugin.proto and its generated files, frame_encode.go, frame_decode.go, chunk.go, buffer.go,
// codec.go (gRPC), window.go (credits), local.go (in-process streams), errors.go.
package pluginpb

//go:generate sh generate.sh
