package server

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/protocol"
)

// The golden files of testdata/golden hold, for each key and version that is served, the bytes of
// a request and an answer with every field set, tagged ones and an unknown tag included, and of
// those with nothing set: without the size, header included. Each file was read and written again
// by the generated classes of Kafka 4.4.0, with the same bytes.

var rewriteGolden = flag.Bool("rewrite-golden", false, "write testdata/golden anew")

// filler sets every field of a kmsg struct to a value of its own.
type filler struct {
	n        int64
	flexible bool
}

// unknownTag is a tag that no version knows.
const unknownTag = 9001

func (f *filler) fill(v reflect.Value, depth int) {
	f.n++
	if tags, ok := v.Addr().Interface().(*kmsg.Tags); ok {
		if f.flexible {
			tags.Set(unknownTag, []byte{byte(f.n)})
		}
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int8:
		v.SetInt(f.n%100 + 1)
	case reflect.Int16:
		v.SetInt(f.n + 1<<8)
	case reflect.Int32:
		v.SetInt(f.n + 1<<16 + 1<<24)
	case reflect.Int64:
		v.SetInt(f.n + 1<<32 + 1<<48)
	case reflect.Uint16, reflect.Uint32:
		v.SetUint(uint64(f.n + 1<<8))
	case reflect.Float64:
		v.SetFloat(float64(f.n) + .5)
	case reflect.String:
		v.SetString(fmt.Sprintf("s%d", f.n))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem(), depth)
	case reflect.Array: // an id
		for i := range v.Len() {
			v.Index(i).SetUint(uint64(byte(f.n) + byte(i)))
		}
	case reflect.Slice:
		f.fillSlice(v, depth)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Name != "Version" || depth > 0 {
				f.fill(v.Field(i), depth+1)
			}
		}
	default:
		panic("cannot fill a " + v.Type().String())
	}
}

// fillSlice gives two elements near the top, one deeper, since sizes multiply.
func (f *filler) fillSlice(v reflect.Value, depth int) {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		v.SetBytes([]byte(fmt.Sprintf("b%d", f.n)))
		return
	}
	n := 1
	if depth <= 1 {
		n = 2
	}
	v.Set(reflect.MakeSlice(v.Type(), n, n))
	for i := range n {
		f.fill(v.Index(i), depth+1)
	}
}

// message is what requests and responses of kmsg have in common.
type message interface {
	SetVersion(int16)
	IsFlexible() bool
	AppendTo([]byte) []byte
	ReadFrom([]byte) error
	Default()
}

// filled sets every field of m, or its defaults.
func filled[T message](m T, version int16, every bool) T {
	m.SetVersion(version)
	m.Default()
	if every {
		f := &filler{flexible: m.IsFlexible()}
		f.fill(reflect.ValueOf(m).Elem(), 0)
		dropLaterTags(m, version)
	}
	return m
}

// dropLaterTags takes out tagged fields that are younger than version: kmsg writes them in every
// flexible version, Kafka refuses them there.
func dropLaterTags(m any, version int16) {
	switch m := m.(type) {
	case *kmsg.ProduceResponse:
		if version < 10 {
			m.Brokers = nil
			for i := range m.Topics {
				for j := range m.Topics[i].Partitions {
					m.Topics[i].Partitions[j].CurrentLeader.Default()
					m.Topics[i].Partitions[j].CurrentLeader.UnknownTags = kmsg.Tags{}
				}
			}
		}
	case *kmsg.FetchResponse:
		if version < 16 {
			m.Brokers = nil
		}
	case *kmsg.FetchRequest:
		if version < 15 {
			m.ReplicaState = kmsg.NewFetchRequestReplicaState()
		}
		for i := range m.Topics {
			for j := range m.Topics[i].Partitions {
				p := &m.Topics[i].Partitions[j]
				if version < 17 {
					p.ReplicaDirectoryID = [16]byte{}
				}
				if version < 18 {
					p.HighWatermark = kmsg.NewFetchRequestTopicPartition().HighWatermark
				}
			}
		}
	}
}

// eachServed calls do for every key and version of the table of handlers.
func eachServed(do func(h handler, version int16)) {
	for _, h := range newHandlerTable(handlers).rows {
		for version := h.served; version <= h.max; version++ {
			do(h, version)
		}
	}
}

// requestOf and responseOf make the kmsg struct of a key.
func requestOf(key, version int16, every bool) kmsg.Request {
	return filled(kmsg.RequestForKey(key).(interface {
		kmsg.Request
		Default()
	}), version, every)
}

func responseOf(key, version int16, every bool) kmsg.Response {
	return filled(kmsg.ResponseForKey(key).(interface {
		kmsg.Response
		Default()
	}), version, every)
}

// goldenHeader is a request header written out by hand: a client id in the old form in every
// version, then, when flexible, a tag that nobody knows.
func goldenHeader(key, version int16, flexible bool) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = append(b, 0, 1, 2, 3) // correlation id
	b = append(b, 0, 2, 'm', 'e')
	if flexible {
		b = append(b, 1, 0xa9, 0x46, 1, 'x') // one tag: 9001, one byte
	}
	return b
}

const goldenCorrelation = 0x00010203

// goldenFile is the golden file of a key.
func goldenFile(key int16) string {
	return filepath.Join("testdata", "golden",
		fmt.Sprintf("%02d_%s.txt", key, protocol.KeyName(key)))
}

// TestGoldenBytesOfEveryVersion compares what this build reads and writes with the golden files. A
// key without a file, or a file that lacks a version, fails.
func TestGoldenBytesOfEveryVersion(t *testing.T) {
	s := &Server{table: newHandlerTable(handlers)}
	text := map[int16]*strings.Builder{}
	eachServed(func(h handler, version int16) {
		b := text[h.key]
		if b == nil {
			b = new(strings.Builder)
			text[h.key] = b
		}
		for _, every := range []bool{true, false} {
			name := "empty"
			if every {
				name = "filled"
			}
			req, resp := requestOf(h.key, version, every), responseOf(h.key, version, every)
			frame := append(goldenHeader(h.key, version, s.flexible(h.key, version)),
				req.AppendTo(nil)...)
			answer := (&conn{}).frame(protocol.Header{Key: h.key, Version: version,
				CorrelationID: goldenCorrelation}, resp.IsFlexible(), resp)
			require.Equal(t, len(*answer.bytes)-4, int(binary.BigEndian.Uint32(*answer.bytes)))
			fmt.Fprintf(b, "v%d request %s %x\n", version, name, frame)
			fmt.Fprintf(b, "v%d response %s %x\n", version, name, (*answer.bytes)[4:])
		}
	})
	files, err := filepath.Glob(filepath.Join("testdata", "golden", "*"))
	require.NoError(t, err)
	require.LessOrEqual(t, len(files), len(text), "a golden file of a key that is not served")
	for key, b := range text {
		if *rewriteGolden {
			require.NoError(t, os.WriteFile(goldenFile(key), []byte(b.String()), 0o644))
		}
		want, err := os.ReadFile(goldenFile(key))
		require.NoError(t, err, "a key without golden bytes: go test -rewrite-golden, and look "+
			"at what it writes")
		require.Equal(t, string(want), b.String(), "%s", protocol.KeyName(key))
	}
}

// goldenLine is one message of a golden file.
type goldenLine struct {
	key, version   int16
	response, full bool
	bytes          []byte
}

// goldenLines reads all golden files.
func goldenLines(t testing.TB) []goldenLine {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "golden", "*.txt"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var all []goldenLine
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		for line := range strings.Lines(string(raw)) {
			l := goldenLine{}
			var kind, name, digits string
			_, err := fmt.Sscanf(filepath.Base(file), "%d_", &l.key)
			require.NoError(t, err)
			_, err = fmt.Sscanf(line, "v%d %s %s %s", &l.version, &kind, &name, &digits)
			require.NoError(t, err, "%s: %s", file, line)
			l.response, l.full = kind == "response", name == "filled"
			l.bytes, err = hex.DecodeString(digits)
			require.NoError(t, err)
			all = append(all, l)
		}
	}
	return all
}

// TestGoldenRequestsAreRead takes the golden requests through the server's own decoding, and the
// golden answers through kmsg as a client would: encoded again, they are the same bytes.
func TestGoldenRequestsAreRead(t *testing.T) {
	s := &Server{table: newHandlerTable(handlers)}
	for _, l := range goldenLines(t) {
		at := fmt.Sprintf("%s v%d", protocol.KeyName(l.key), l.version)
		if l.response {
			resp := kmsg.ResponseForKey(l.key)
			resp.SetVersion(l.version)
			body := l.bytes[4:]
			require.Equal(t, uint32(goldenCorrelation), binary.BigEndian.Uint32(l.bytes), at)
			if resp.IsFlexible() && l.key != protocol.KeyApiVersions {
				require.Equal(t, byte(0), body[0], at)
				body = body[1:]
			}
			require.NoError(t, resp.ReadFrom(body), at)
			require.Equal(t, body, resp.AppendTo([]byte{}), at)
			continue
		}
		head, body, err := protocol.ParseHeader(l.bytes, s.flexible)
		require.NoError(t, err, at)
		require.Equal(t, protocol.Header{Key: l.key, Version: l.version,
			CorrelationID: goldenCorrelation, ClientID: []byte("me")}, head, at)
		req, err := protocol.DecodeRequest(l.key, l.version, body)
		require.NoError(t, err, at)
		require.Equal(t, body, req.AppendTo([]byte{}), at)
		switch want := req.(type) {
		case *kmsg.ProduceRequest:
			requireSameProduce(t, l.version, body, want)
		case *kmsg.FetchRequest:
			requireSameFetch(t, l.version, body, want)
		}
	}
}

// requireSameProduce compares the hand-written decoder with kmsg.
func requireSameProduce(t *testing.T, version int16, body []byte, want *kmsg.ProduceRequest) {
	t.Helper()
	var got protocol.ProduceRequest
	require.NoError(t, got.Decode(version, body))
	require.Equal(t, want.Acks, got.Acks)
	require.Equal(t, want.TimeoutMillis, got.TimeoutMillis)
	if want.TransactionID == nil {
		require.Empty(t, got.TransactionalID)
	} else {
		require.Equal(t, *want.TransactionID, string(got.TransactionalID))
	}
	require.Len(t, got.Topics, len(want.Topics))
	for i, topic := range want.Topics {
		require.Equal(t, topic.Topic, string(got.Topics[i].Name))
		require.Equal(t, topic.TopicID, got.Topics[i].ID)
		parts := got.Partitions[got.Topics[i].First:got.Topics[i].End]
		require.Len(t, parts, len(topic.Partitions))
		for j, p := range topic.Partitions {
			require.Equal(t, p.Partition, parts[j].Index)
			require.True(t, bytes.Equal(p.Records, parts[j].Records))
		}
	}
}

// requireSameFetch compares the hand-written decoder with kmsg.
func requireSameFetch(t *testing.T, version int16, body []byte, want *kmsg.FetchRequest) {
	t.Helper()
	var got protocol.FetchRequest
	require.NoError(t, got.Decode(version, body))
	replica := want.ReplicaID
	if version >= 15 {
		replica = want.ReplicaState.ID
	}
	require.Equal(t, replica, got.ReplicaID, "version %d", version)
	require.Equal(t, want.MaxWaitMillis, got.MaxWaitMillis)
	require.Equal(t, want.MinBytes, got.MinBytes)
	require.Equal(t, want.MaxBytes, got.MaxBytes)
	require.Equal(t, want.IsolationLevel, got.IsolationLevel)
	require.Equal(t, want.SessionID, got.SessionID)
	require.Equal(t, want.SessionEpoch, got.SessionEpoch)
	require.Equal(t, want.Rack, string(got.Rack))
	require.Len(t, got.Topics, len(want.Topics))
	for i, topic := range want.Topics {
		require.Equal(t, topic.Topic, string(got.Topics[i].Name))
		require.Equal(t, topic.TopicID, got.Topics[i].ID)
		parts := got.Partitions[got.Topics[i].First:got.Topics[i].End]
		require.Len(t, parts, len(topic.Partitions))
		for j, p := range topic.Partitions {
			require.Equal(t, protocol.FetchPartition{
				Index: p.Partition, CurrentLeaderEpoch: p.CurrentLeaderEpoch,
				Offset: p.FetchOffset, LastFetchedEpoch: p.LastFetchedEpoch,
				LogStartOffset: p.LogStartOffset, MaxBytes: p.PartitionMaxBytes,
			}, parts[j])
		}
	}
	require.Len(t, got.Forgotten, len(want.ForgottenTopics))
	for i, topic := range want.ForgottenTopics {
		require.Equal(t, topic.Topic, string(got.Forgotten[i].Name))
		require.Equal(t, topic.TopicID, got.Forgotten[i].ID)
		require.Equal(t, topic.Partitions,
			got.ForgottenPartitions[got.Forgotten[i].First:got.Forgotten[i].End])
	}
}
