package pluginpb

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// messages have frames small and large, alone and with everything else that travels with them.
func messages() []proto.Message {
	var out []proto.Message
	for _, n := range []int{0, 10, 511, 512, 5000, 100_000} {
		frame := bytes.Repeat([]byte{7}, n)
		errs := []*RecordError{{Index: 3, Class: "plugin", Message: "no", Retryable: true}}
		counts := make([]uint32, 1000)
		out = append(out,
			&ToPlugin{Msg: &ToPlugin_Batch{Batch: &Batch{
				Seq: 1 << 40, Frame: frame, More: true, Credit: &Credit{Frames: 2, Bytes: 3},
			}}},
			&FromPlugin{Msg: &FromPlugin_Result{Result: &Result{
				Seq: 5, Frame: frame, Counts: counts, Errors: errs, Credit: &Credit{Frames: 1},
			}}},
			&FromPlugin{Msg: &FromPlugin_Records{Records: &Records{
				Seq: 9, Frame: frame, Position: []byte("{}"), End: true, Errors: errs,
			}}},
			&FromPlugin{Msg: &FromPlugin_Output{Output: &Output{Data: frame}}},
			&ToPlugin{Msg: &ToPlugin_Open{Open: &Open{Part: "p", Config: frame}}},
		)
	}
	return out
}

func fresh(m proto.Message) proto.Message {
	if _, ok := m.(*ToPlugin); ok {
		return &ToPlugin{}
	}
	return &FromPlugin{}
}

// pieces cuts b as HTTP/2 frames would.
func pieces(b []byte, size int) mem.BufferSlice {
	var out mem.BufferSlice
	for len(b) > size {
		out = append(out, mem.SliceBuffer(b[:size]))
		b = b[size:]
	}
	return append(out, mem.SliceBuffer(b))
}

func TestCodecIsProtobuf(t *testing.T) {
	for i, m := range messages() {
		want := proto.Clone(m)
		plain, err := proto.Marshal(m)
		require.NoError(t, err)
		for _, size := range []int{100, 16 << 10, 1 << 20} { // what another language sends
			got := fresh(m)
			require.NoError(t, Codec{}.Unmarshal(pieces(plain, size), got))
			require.True(t, proto.Equal(want, got), "message %d", i)
		}
		fast, err := Codec{}.Marshal(m)
		require.NoError(t, err)
		raw := fast.Materialize()
		got := fresh(m)
		require.NoError(t, proto.Unmarshal(raw, got)) // what another language reads
		require.True(t, proto.Equal(want, got), "message %d", i)
		got = fresh(m)
		require.NoError(t, Codec{}.Unmarshal(pieces(raw, 1000), got))
		require.True(t, proto.Equal(want, got), "message %d", i)
	}
}

func FuzzCodecUnmarshal(f *testing.F) {
	for _, m := range messages() {
		b, err := Codec{}.Marshal(m)
		require.NoError(f, err)
		raw := b.Materialize()
		f.Add(raw[:min(len(raw), 3000)], 700)
	}
	f.Fuzz(func(t *testing.T, raw []byte, size int) {
		size = 1 + max(size, -(size+1))%5000
		for _, m := range []proto.Message{&ToPlugin{}, &FromPlugin{}} {
			plain := fresh(m)
			err := Codec{}.Unmarshal(pieces(raw, size), m)
			if want := proto.Unmarshal(raw, plain); want == nil {
				require.NoError(t, err)
				require.True(t, proto.Equal(plain, m))
			}
		}
	})
}

func TestWindowWaitsForCredit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWindow(&Credit{Frames: 2, Bytes: 100})
		require.NoError(t, w.Take(t.Context(), 60))
		require.False(t, w.TryTake(60)) // bytes
		require.True(t, w.TryTake(40))
		require.False(t, w.TryTake(0)) // frames
		taken := make(chan struct{})
		go func() {
			_ = w.Take(t.Context(), 10)
			close(taken)
		}()
		synctest.Wait()
		select {
		case <-taken:
			t.Fatal("taken without credit")
		default:
		}
		w.Grant(&Credit{Frames: 1, Bytes: 60})
		<-taken
		w.Grant(&Credit{Frames: 2, Bytes: 50})
		require.True(t, w.TryTake(1000)) // nothing else is on the way: any size may go
		require.False(t, w.TryTake(1))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, w.Take(ctx, 1), context.Canceled)
	})
}
