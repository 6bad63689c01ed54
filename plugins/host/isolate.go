package host

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/millstream-io/millstream/plugins/pluginpb"
)

// isolationCrashes bounds the processes one batch may cost: ten find one record in a thousand.
const isolationCrashes = 200

// solo runs pieces of one call on a process of its own, one at a time, so that a crash can only
// be the fault of what was sent.
type solo struct {
	e        *exchange
	launcher *launcher
	in       *instance // nil when there is none
	ctx      context.Context
	cancel   context.CancelFunc
	stream   clientStream
	seq      uint64
	owed     *pluginpb.Credit
	crashes  int
	poison   int
	exit     string // how the last process ended
}

// isolate takes a call apart that was the oldest at two crashes. It returns the results of all its
// records, those that crash the plugin with class plugin_crash, and how many these are.
func (e *exchange) isolate(c *call) (res *Results, poison int, err error) {
	records, err := pluginpb.Decode(c.frame)
	if err != nil {
		return nil, 0, fmt.Errorf("decode a frame of this host: %w", err)
	}
	s := &solo{e: e, launcher: &launcher{
		options: e.p.options, log: newPluginLog(e.p.options.Logger.With("isolated", true)),
	}}
	defer s.close()
	if len(records) > 1 && e.p.streamCount() == 1 { // no other stream can be to blame
		res, err = s.halves(records)
	} else {
		res, err = s.bisect(records)
	}
	return res, s.poison, err
}

// bisect runs records and, if they crash the plugin, their halves, down to single records.
func (s *solo) bisect(records []Record) (*Results, error) {
	res, crashed, err := s.try(records)
	switch {
	case err != nil || !crashed:
		return res, err
	case len(records) == 1:
		s.poison++
		r := &records[0]
		s.e.p.options.Logger.Warn("record crashes the plugin", "part", s.e.part, "task", s.e.task,
			"topic", r.Topic, "partition", r.Partition, "offset", r.Offset, "exit", s.exit)
		return failed(pluginpb.ClassPluginCrash, "the record ends the plugin process: "+s.exit), nil
	}
	return s.halves(records)
}

func (s *solo) halves(records []Record) (*Results, error) {
	left, err := s.bisect(records[:len(records)/2])
	if err != nil {
		return nil, err
	}
	right, err := s.bisect(records[len(records)/2:])
	if err != nil {
		return nil, err
	}
	left.add(right)
	return left, nil
}

// try sends records as one batch and waits for the answer or the end of the process.
func (s *solo) try(records []Record) (res *Results, crashed bool, err error) {
	if err := s.connect(); err != nil {
		return nil, false, err
	}
	limit := s.e.hang
	in, cancel := s.in, s.cancel
	watch := time.AfterFunc(limit, func() {
		in.abort()
		cancel()
	})
	a, err := s.exchange(pluginpb.Encode(records))
	if !watch.Stop() && err != nil {
		err = status.Error(codes.Unavailable, fmt.Sprintf("no answer within %s", limit))
	}
	if err == nil {
		res, err = a.results(len(records))
	}
	if err == nil {
		return res, false, nil
	}
	if s.e.ctx.Err() != nil {
		return nil, false, context.Cause(s.e.ctx)
	}
	if status.Code(err) != codes.Unavailable && status.Code(err) != codes.Canceled {
		return nil, false, s.e.p.streamFault(in, s.e.kind, err)
	}
	s.exit = s.e.p.lost(in, err).Error()
	s.close()
	if s.crashes++; s.crashes > isolationCrashes {
		return nil, false, fmt.Errorf("plugin %q ended %d times on parts of one batch, last %s: %w",
			s.e.p.options.Name, s.crashes, s.exit, ErrCrashLoop)
	}
	return nil, true, nil
}

// connect makes sure that a process runs and its stream is open.
func (s *solo) connect() error {
	if s.in != nil {
		return nil
	}
	in, err := s.launcher.launch(s.e.ctx)
	if err != nil {
		return err
	}
	s.in, s.seq, s.owed = in, 0, nil
	s.ctx, s.cancel = context.WithCancel(s.e.ctx)
	if s.stream, err = s.e.connect(s.ctx, in.rpc); err != nil {
		return s.e.p.streamFault(in, s.e.kind, err)
	}
	open := s.e.open()
	open.Part, open.Task = s.e.part, s.e.task
	open.Credit = &pluginpb.Credit{Frames: pluginpb.DefaultCreditFrames,
		Bytes: pluginpb.DefaultCreditBytes}
	_ = s.stream.Send(&pluginpb.ToPlugin{Msg: &pluginpb.ToPlugin_Open{Open: open}}) // Recv tells
	return nil
}

// exchange sends one frame and receives until its answer.
func (s *solo) exchange(frame []byte) (*answer, error) {
	s.seq++
	seq := s.seq
	_ = pluginpb.Split(frame, func(piece []byte, more bool) error { // Recv tells what is wrong
		b := &pluginpb.Batch{Seq: seq, Frame: piece, More: more, Credit: s.owed}
		s.owed = nil
		return s.stream.Send(&pluginpb.ToPlugin{Msg: &pluginpb.ToPlugin_Batch{Batch: b}})
	})
	var join pluginpb.Joiner
	for {
		m, err := s.stream.Recv()
		if err != nil {
			return nil, err
		}
		switch x := m.Msg.(type) {
		case *pluginpb.FromPlugin_Result:
			out, done, err := join.Add(x.Result.Seq, x.Result.Frame, x.Result.More)
			if err != nil {
				return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
			}
			if done {
				s.owed = &pluginpb.Credit{Frames: 1, Bytes: uint64(len(out))}
				return &answer{frame: out, counts: x.Result.Counts, errs: x.Result.Errors}, nil
			}
		case *pluginpb.FromPlugin_Ack:
			return &answer{errs: x.Ack.Errors, ack: true}, nil
		case *pluginpb.FromPlugin_Failure:
			return nil, s.e.p.failure(s.e.kind, x.Failure)
		case *pluginpb.FromPlugin_Log:
			s.e.p.onLog(s.e.part, x.Log)
		case *pluginpb.FromPlugin_Output:
			s.e.p.output(s.e.part, x.Output.Data)
		}
	}
}

// close ends the process, if one runs.
func (s *solo) close() {
	if s.in == nil {
		return
	}
	s.cancel()
	s.in.stop()
	s.in = nil
}
