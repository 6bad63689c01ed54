package sdk

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/millstream-io/millstream/plugins/pluginpb"
)

// SinkWriter is a sink of one task. Its methods are never called concurrently.
//
// After a crash the host opens the sink again and writes what was not acknowledged once more. A
// sink that keeps, together with what it wrote, the next offset of each topic and partition,
// and skips records below it, writes each record exactly once.
type SinkWriter[C any] interface {
	// Open makes the sink ready. committed is what the host knows to be acknowledged.
	Open(ctx Ctx, config C, committed Offsets) error
	// Write returns when the records are as durable as the sink promises. Single records are refused
	// with Records.Fail; an error fails all of them; Fatal stops the pipeline.
	Write(ctx Ctx, records *Records) error
	// Close releases what Open took; everything written stays.
	Close() error
}

// TopicPartition names a partition.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// Offsets holds the next offset of each partition: all below it is acknowledged.
type Offsets map[TopicPartition]int64

// sink is a SinkWriter without its configuration type.
type sink interface {
	open(ctx Ctx, committed Offsets) error
	write(ctx Ctx, records *Records) error
	close() error
}

// NewSink makes a sink part; open makes a writer for each task.
func NewSink[C any](name string, open func() SinkWriter[C]) Part {
	p := newPart[C](name, pluginpb.Kind_KIND_SINK)
	s := p.shape
	p.sink = func(config []byte) (sink, []*pluginpb.Diagnostic) {
		c, found := decodeConfig[C](s, config)
		if len(found) > 0 {
			return nil, found
		}
		return &typedSink[C]{writer: open(), config: c}, nil
	}
	return p
}

type typedSink[C any] struct {
	writer SinkWriter[C]
	config C
}

func (s *typedSink[C]) open(ctx Ctx, committed Offsets) error {
	return s.writer.Open(ctx, s.config, committed)
}
func (s *typedSink[C]) write(ctx Ctx, r *Records) error { return s.writer.Write(ctx, r) }
func (s *typedSink[C]) close() error                    { return s.writer.Close() }

// runSink serves one Sink stream.
func runSink(s *session, part Part) error {
	snk, found := part.sink(s.open.Config)
	if len(found) > 0 {
		return s.failConfig(found)
	}
	ctx, cancel := context.WithCancel(s.stream.Context())
	defer cancel()
	c := s.ctx(ctx)
	committed := Offsets{}
	for _, o := range s.open.Committed {
		committed[TopicPartition{o.Topic, o.Partition}] = o.Offset
	}
	if err := snk.open(c, committed); err != nil {
		return s.fail("open", err, 0)
	}
	drained := false
	err := s.opened()
	if err == nil {
		drained, err = s.writeAll(snk, c)
	}
	if e := snk.close(); e != nil && err == nil {
		return s.fail("close", e, 0)
	}
	if drained {
		return s.drained()
	}
	return err
}

// writeAll writes batches until the host drains the sink or the stream ends.
func (s *session) writeAll(snk sink, c Ctx) (drained bool, err error) {
	in := make(chan inbound, pluginpb.DefaultCreditFrames+1)
	var received error // set before in is closed
	go s.receiveBatches(in, &received)
	var dec pluginpb.Decoder
	var recs Records
	for m := range in {
		if m.drain {
			return true, nil
		}
		if err := dec.Reset(m.frame); err != nil {
			return false, status.Error(codes.InvalidArgument, err.Error())
		}
		if err := readRecords(&dec, &recs); err != nil {
			return false, status.Error(codes.InvalidArgument, err.Error())
		}
		err := snk.write(c, &recs)
		if err != nil && isFatal(err) {
			if e := s.fail(pluginpb.ClassPlugin, err, m.seq); e != nil {
				return false, e
			}
			return false, err
		}
		ack := &pluginpb.Ack{Seq: m.seq, Credit: &pluginpb.Credit{
			Frames: 1, Bytes: uint64(len(m.frame)),
		}}
		for i, e := range recs.errs {
			if err != nil {
				e = err
			}
			if e != nil && e != ErrDrop {
				re := recordError(e)
				re.Index = uint32(i)
				ack.Errors = append(ack.Errors, re)
			}
		}
		pluginpb.PutBuffer(m.frame)
		if e := s.send(&pluginpb.FromPlugin{Msg: &pluginpb.FromPlugin_Ack{Ack: ack}}); e != nil {
			return false, e
		}
	}
	return false, received
}
