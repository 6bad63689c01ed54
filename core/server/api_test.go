package server_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/coretest"
	"github.com/millstream-io/millstream/core/record"
)

// wire is a connection on which requests of any version are written.
type wire struct {
	t  testing.TB
	c  net.Conn
	id int32
}

func dial(t testing.TB, c *coretest.Cluster) *wire {
	t.Helper()
	conn, err := c.Dialer()(context.Background(), "tcp", c.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return &wire{t: t, c: conn}
}

// send writes req and returns its correlation id.
func (w *wire) send(req kmsg.Request) int32 {
	w.t.Helper()
	w.id++
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("wire")).
		AppendRequest(nil, req, w.id)
	_, err := w.c.Write(frame)
	require.NoError(w.t, err)
	return w.id
}

// receive reads the answer to req, which must be the next one.
func (w *wire) receive(req kmsg.Request, id int32) kmsg.Response {
	w.t.Helper()
	_ = w.c.SetReadDeadline(time.Now().Add(time.Minute))
	var size [4]byte
	_, err := io.ReadFull(w.c, size[:])
	require.NoError(w.t, err, "no answer to %s v%d",
		kmsg.NameForKey(req.Key()), req.GetVersion())
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err = io.ReadFull(w.c, frame)
	require.NoError(w.t, err)
	require.Equal(w.t, id, int32(binary.BigEndian.Uint32(frame)))
	frame = frame[4:]
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	if resp.IsFlexible() && resp.Key() != 18 {
		require.Equal(w.t, byte(0), frame[0], "tags of the header")
		frame = frame[1:]
	}
	require.NoError(w.t, resp.ReadFrom(frame))
	// Encoding it again must give the same bytes: nothing was left over or made up.
	require.Equal(w.t, frame, resp.AppendTo(nil), "%s v%d",
		kmsg.NameForKey(req.Key()), req.GetVersion())
	return resp
}

func ask[T kmsg.Response](w *wire, req kmsg.Request) T {
	w.t.Helper()
	return w.receive(req, w.send(req)).(T)
}

func requireHangUp(t testing.TB, w *wire) {
	t.Helper()
	_ = w.c.SetReadDeadline(time.Now().Add(time.Minute))
	_, err := w.c.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}

func newTopic(t testing.TB, c *coretest.Cluster, name string, partitions int32,
	configs map[string]*string) [16]byte {
	t.Helper()
	cl := c.Client()
	defer cl.Close()
	resp, err := kadm.NewClient(cl).CreateTopic(t.Context(), partitions, 1, configs, name)
	require.NoError(t, err)
	return resp.ID
}

// batch is one record batch of n records; change edits it before its CRC is right.
func batch(t testing.TB, n int, opts record.BuilderOptions) []byte {
	t.Helper()
	b := record.NewBuilder(opts)
	for i := range n {
		b.Append(record.Record{
			Timestamp: 1_700_000_000_000 + int64(i), Key: []byte{byte(i)}, Value: []byte("value"),
		})
	}
	out, err := b.Build()
	require.NoError(t, err)
	return append([]byte(nil), out...)
}

func produceRequest(version int16, topic string, id [16]byte, partition int32, records []byte,
) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.SetVersion(version)
	req.Acks, req.TimeoutMillis = -1, 5000
	rt := kmsg.NewProduceRequestTopic()
	if version >= 13 {
		rt.TopicID = id
	} else {
		rt.Topic = topic
	}
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Partition, rp.Records = partition, records
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

func fetchRequest(version int16, topic string, id [16]byte, partition int32, offset int64,
) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.SetVersion(version)
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 0, 1, 1<<20
	req.SessionEpoch = -1
	rt := kmsg.NewFetchRequestTopic()
	if version >= 13 {
		rt.TopicID = id
	} else {
		rt.Topic = topic
	}
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = partition, offset, 1<<20
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

// advertised asks a broker for what it serves.
func advertised(w *wire) []kmsg.ApiVersionsResponseApiKey {
	req := kmsg.NewPtrApiVersionsRequest()
	return ask[*kmsg.ApiVersionsResponse](w, req).ApiKeys
}

// TestEveryVersionIsAnswered sends an empty request of every advertised key and version: each is
// answered in its own version, byte for byte what kmsg would write.
func TestEveryVersionIsAnswered(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	keys := advertised(dial(t, c))
	require.NotEmpty(t, keys)
	w := dial(t, c)
	for _, k := range keys {
		for version := k.MinVersion; version <= k.MaxVersion; version++ {
			if k.ApiKey == 0 && version < 3 {
				continue // advertised for librdkafka, refused
			}
			req := kmsg.RequestForKey(k.ApiKey)
			req.SetVersion(version)
			type defaulter interface{ Default() }
			req.(defaulter).Default()
			switch r := req.(type) {
			case *kmsg.ApiVersionsRequest:
				r.ClientSoftwareName, r.ClientSoftwareVersion = "test", "1"
			case *kmsg.ProduceRequest:
				r.Acks = -1
			case *kmsg.FetchRequest:
				r.MaxWaitMillis, r.SessionEpoch = 0, -1
			}
			w.receive(req, w.send(req))
		}
	}
}

// TestAdvertisesOneKafkaRelease holds the table against the ranges that Kafka 4.3 advertises, for
// what is served of it. What is not served must be absent.
func TestAdvertisesOneKafkaRelease(t *testing.T) {
	kafka43 := map[int16][2]int16{
		0: {0, 13}, 1: {4, 18}, 2: {1, 11}, 3: {0, 13}, 8: {2, 10}, 9: {1, 10}, 10: {0, 6},
		11: {0, 9}, 12: {0, 4}, 13: {0, 5}, 14: {0, 5}, 15: {0, 6}, 16: {0, 5}, 18: {0, 4},
		19: {2, 7}, 20: {1, 6}, 21: {0, 2}, 22: {0, 5}, 23: {2, 4}, 32: {1, 4}, 33: {0, 2},
		34: {1, 2}, 43: {0, 2}, 45: {0, 1}, 46: {0, 0}, 55: {0, 2}, 57: {0, 2}, 61: {0, 0},
		64: {0, 0},
		24: {0, 5}, 25: {0, 4}, 26: {0, 5}, 27: {1, 2}, 28: {0, 5}, 65: {0, 0}, 66: {0, 2},
		35: {1, 5}, 37: {0, 3}, 42: {0, 2}, 44: {0, 1}, 47: {0, 0}, 60: {0, 2}, 74: {0, 1},
		68: {0, 1}, 69: {0, 1}, 75: {0, 0},
		48: {0, 1}, 49: {0, 1},
		17: {0, 1}, 36: {0, 2}, 29: {1, 3}, 30: {1, 3}, 31: {1, 3}, 50: {0, 0}, 51: {0, 0},
	}
	c := coretest.Start(t, coretest.Options{})
	seen := map[int16]bool{}
	for _, k := range advertised(dial(t, c)) {
		seen[k.ApiKey] = true
		require.Contains(t, kafka43, k.ApiKey, "not to be advertised")
		require.Equal(t, kafka43[k.ApiKey], [2]int16{k.MinVersion, k.MaxVersion},
			"key %d", k.ApiKey)
	}
	for key := range kafka43 {
		require.True(t, seen[key], "key %d", key)
	}
}

func TestProduceV2IsRefused(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	w := dial(t, c)
	req := kmsg.NewPtrProduceRequest()
	req.SetVersion(2)
	w.send(req)
	requireHangUp(t, w)
}

// TestRequestsAreAnsweredInOrder pipelines requests of which some wait: a fetch for its time, a
// produce for the disk. The answers keep the order of the requests.
func TestRequestsAreAnsweredInOrder(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	id := newTopic(t, c, "t", 1, nil)
	w := dial(t, c)
	var reqs []kmsg.Request
	var ids []int32
	for i := range 60 {
		var req kmsg.Request
		switch i % 4 {
		case 0:
			req = produceRequest(9, "t", id, 0, batch(t, 1, record.BuilderOptions{}))
		case 1:
			fetch := fetchRequest(12, "t", id, 0, 1000) // out of range: at once
			req = fetch
		case 2:
			fetch := fetchRequest(12, "t", id, 0, int64(i/4+1))
			fetch.MaxWaitMillis, fetch.MinBytes = 30, 1<<20
			req = fetch
		default:
			req = kmsg.NewPtrMetadataRequest()
		}
		reqs = append(reqs, req)
		ids = append(ids, w.send(req))
	}
	for i, req := range reqs {
		w.receive(req, ids[i])
	}
}
