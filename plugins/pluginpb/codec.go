package pluginpb

import (
	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Numbers of plugin.proto the codec needs to know.
const (
	fieldBatch   = 2 // ToPlugin.batch
	fieldResult  = 2 // FromPlugin.result
	fieldRecords = 3 // FromPlugin.records
	fieldFrame   = 2 // frame, in all three
)

// fastBytes is the message size from which leaving protobuf aside pays.
const fastBytes = 512

// Codec is gRPC's protobuf codec with a second path for the messages that carry a frame: the
// bytes on the wire are the same valid protobuf, but the frame is written from where it lies
// and read into a pooled buffer of its own. A peer in another language needs to know nothing
// about it.
type Codec struct{}

var _ encoding.CodecV2 = Codec{}

// Name is the content subtype, that of plain protobuf.
func (Codec) Name() string { return grpcproto.Name }

// Marshal encodes v. The frame of a Result or Records is handed over; that of a Batch is only read.
func (Codec) Marshal(v any) (mem.BufferSlice, error) {
	switch m := v.(type) {
	case *ToPlugin:
		if b, ok := m.Msg.(*ToPlugin_Batch); ok && len(b.Batch.Frame) >= fastBytes {
			frame := b.Batch.Frame
			rest := &Batch{Seq: b.Batch.Seq, More: b.Batch.More, Credit: b.Batch.Credit}
			return marshalFrame(fieldBatch, rest, mem.SliceBuffer(frame))
		}
	case *FromPlugin:
		switch b := m.Msg.(type) {
		case *FromPlugin_Result:
			if frame := b.Result.Frame; len(frame) >= fastBytes {
				b.Result.Frame = nil
				return marshalFrame(fieldResult, b.Result, mem.NewBuffer(&frame, framePool{}))
			}
		case *FromPlugin_Records:
			if frame := b.Records.Frame; len(frame) >= fastBytes {
				b.Records.Frame = nil
				return marshalFrame(fieldRecords, b.Records, mem.NewBuffer(&frame, framePool{}))
			}
		}
	}
	return base().Marshal(v)
}

func base() encoding.CodecV2 { return encoding.GetCodecV2(grpcproto.Name) }

// marshalFrame writes the oneof member number outer: rest, then the frame as the last field.
func marshalFrame(outer protowire.Number, rest proto.Message,
	frame mem.Buffer) (mem.BufferSlice, error) {
	size := proto.Size(rest)
	inner := size + protowire.SizeTag(fieldFrame) + protowire.SizeBytes(frame.Len())
	b := make([]byte, 0, size+32)
	b = protowire.AppendTag(b, outer, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(inner))
	b, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(b, rest)
	if err != nil {
		return nil, err
	}
	b = protowire.AppendTag(b, fieldFrame, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(frame.Len()))
	return mem.BufferSlice{mem.SliceBuffer(b), frame}, nil
}

// Unmarshal decodes data into v. A frame in v belongs to the caller.
func (Codec) Unmarshal(data mem.BufferSlice, v any) error {
	if data.Len() >= fastBytes {
		switch m := v.(type) {
		case *ToPlugin:
			var b Batch
			if unmarshalFrame(data, fieldBatch, &b, func(f []byte) { b.Frame = f }) {
				m.Msg = &ToPlugin_Batch{Batch: &b}
				return nil
			}
		case *FromPlugin:
			var r Result
			if unmarshalFrame(data, fieldResult, &r, func(f []byte) { r.Frame = f }) {
				m.Msg = &FromPlugin_Result{Result: &r}
				return nil
			}
			var s Records
			if unmarshalFrame(data, fieldRecords, &s, func(f []byte) { s.Frame = f }) {
				m.Msg = &FromPlugin_Records{Records: &s}
				return nil
			}
		}
	}
	return base().Unmarshal(data, v)
}

// unmarshalFrame reads a message laid out as marshalFrame does. Anything else makes it return false
// with nothing done, and protobuf decodes the message.
func unmarshalFrame(data mem.BufferSlice, outer protowire.Number, rest proto.Message,
	set func([]byte)) bool {
	var head [4 << 10]byte
	n := data.CopyTo(head[:])
	if n == 0 || head[0] != byte(outer<<3|2) { // a one-byte tag; cheap test first
		return false
	}
	total := data.Len()
	inner, w := protowire.ConsumeVarint(head[1:n])
	if w < 0 || inner != uint64(total-1-w) {
		return false
	}
	from := 1 + w
	at := from
	for at < n {
		num, typ, w := protowire.ConsumeTag(head[at:n])
		if w < 0 {
			return false
		}
		if num == fieldFrame && typ == protowire.BytesType {
			size, w2 := protowire.ConsumeVarint(head[at+w : n])
			start := at + w + max(w2, 0)
			if w2 < 0 || size != uint64(total-start) {
				return false
			}
			if (proto.UnmarshalOptions{}).Unmarshal(head[from:at], rest) != nil {
				return false
			}
			set(copyFrom(data, start, int(size)))
			return true
		}
		w2 := protowire.ConsumeFieldValue(num, typ, head[at+w:n])
		if w2 < 0 {
			return false
		}
		at += w + w2
	}
	return false
}

// copyFrom copies the last size bytes of data, which begin at start, into a pooled buffer.
func copyFrom(data mem.BufferSlice, start, size int) []byte {
	frame := GetBuffer(size)
	at := 0
	for _, part := range data {
		p := part.ReadOnlyData()
		if start >= len(p) {
			start -= len(p)
			continue
		}
		at += copy(frame[at:], p[start:])
		start = 0
	}
	return frame
}
