package server_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/coretest"
	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/vfs"
)

// The traps of Kafka's protocol into which brokers have fallen, by their numbers in our list.

// rawFrame is a request frame: header fields as given, then body.
func rawFrame(key, version int16, id int32, clientID, body []byte) []byte {
	b := binary.BigEndian.AppendUint16(make([]byte, 4), uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, uint32(id))
	b = append(append(b, clientID...), body...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// rawAnswer sends a frame and returns the answer's frame without its size.
func rawAnswer(w *wire, frame []byte) []byte {
	w.t.Helper()
	_, err := w.c.Write(frame)
	require.NoError(w.t, err)
	_ = w.c.SetReadDeadline(time.Now().Add(time.Minute))
	var size [4]byte
	_, err = io.ReadFull(w.c, size[:])
	require.NoError(w.t, err)
	got := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err = io.ReadFull(w.c, got)
	require.NoError(w.t, err)
	return got
}

// noClient is a client id of null, or of another negative length.
func noClient(length int16) []byte { return binary.BigEndian.AppendUint16(nil, uint16(length)) }

// TestTrap1_ApiVersionsHeaders: the answer's header is version 0 in every version, the request's
// has the old kind of client id, and an unknown version is answered in version 0.
func TestTrap1_ApiVersionsHeaders(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	w := dial(t, c)
	software := []byte{0, 2, 'x', 2, '1', 0} // the header's tags, name, version, tags
	for version := int16(0); version <= 4; version++ {
		for _, client := range [][]byte{noClient(-1), noClient(-7), {0, 0}, {0, 2, 'm', 'e'}} {
			body := software
			if version < 3 {
				body = nil
			}
			got := rawAnswer(w, rawFrame(18, version, 77, client, body))
			require.Equal(t, []byte{0, 0, 0, 77, 0, 0}, got[:6], "correlation id, then the error")
			resp := kmsg.NewPtrApiVersionsResponse()
			resp.SetVersion(version)
			require.NoError(t, resp.ReadFrom(got[4:]))
			require.NotEmpty(t, resp.ApiKeys)
		}
	}
	for _, version := range []int16{5, 6, 32767} {
		got := rawAnswer(w, rawFrame(18, version, 78, noClient(-1), software))
		require.Equal(t, []byte{0, 0, 0, 78, 0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 4}, got)
	}
	advertised(w) // the connection is still good
}

// TestBug_redpanda0a6fac44_ApiVersionsHeaderHasNoTags: a tag buffer there shifts everything, and
// no client can connect.
func TestBug_redpanda0a6fac44_ApiVersionsHeaderHasNoTags(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	body := []byte{0, 2, 'x', 2, '1', 0}
	got := rawAnswer(dial(t, c), rawFrame(18, 3, 1, noClient(-1), body))
	keys := int(got[6]) // compact: one more than there are, less than 128
	require.Equal(t, []byte{0, 0}, got[4:6], "no error")
	require.Greater(t, keys, 20)
	require.Equal(t, []byte{0, 0}, got[7:9], "the first key is Produce")
}

// TestTrap2_RangesThatClientsNeed: Produce and JoinGroup from 0 on, though Produce is served from
// 3; OffsetForLeaderEpoch 2 and ConsumerGroupHeartbeat 1 are the only ones that librdkafka has.
func TestTrap2_RangesThatClientsNeed(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	needed := map[int16]int16{0: 0, 11: 0, 23: 2, 68: 1, 10: 2, 12: 0, 13: 0, 14: 0}
	for _, k := range advertised(dial(t, c)) {
		if version, ok := needed[k.ApiKey]; ok {
			require.LessOrEqual(t, k.MinVersion, version, "key %d", k.ApiKey)
			require.GreaterOrEqual(t, k.MaxVersion, version, "key %d", k.ApiKey)
			delete(needed, k.ApiKey)
		}
	}
	require.Empty(t, needed, "not advertised")
}

// TestTrap3_Features: before version 4 a supported feature whose least level is 0 breaks clients
// (KAFKA-17011); a final level is never 0, and the epoch is told.
func TestTrap3_Features(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	w := dial(t, c)
	for version := int16(3); version <= 4; version++ {
		req := kmsg.NewPtrApiVersionsRequest()
		req.SetVersion(version)
		req.ClientSoftwareName, req.ClientSoftwareVersion = "x", "1"
		resp := ask[*kmsg.ApiVersionsResponse](w, req)
		require.GreaterOrEqual(t, resp.FinalizedFeaturesEpoch, int64(0))
		ranges := map[string][2]int16{}
		for _, f := range resp.SupportedFeatures {
			ranges[f.Name] = [2]int16{f.MinVersion, f.MaxVersion}
			require.LessOrEqual(t, f.MinVersion, f.MaxVersion)
			if version < 4 {
				require.Positive(t, f.MinVersion, f.Name)
			}
		}
		for _, f := range resp.FinalizedFeatures {
			require.Positive(t, f.MaxVersionLevel, f.Name)
			if r, ok := ranges[f.Name]; ok {
				require.LessOrEqual(t, f.MaxVersionLevel, r[1], f.Name)
			}
		}
		require.Contains(t, ranges, "metadata.version")
	}
	final := func() (epoch int64, levels map[string]int16) {
		req := kmsg.NewPtrApiVersionsRequest()
		req.SetVersion(4)
		req.ClientSoftwareName, req.ClientSoftwareVersion = "x", "1"
		resp := ask[*kmsg.ApiVersionsResponse](w, req)
		levels = make(map[string]int16)
		for _, f := range resp.FinalizedFeatures {
			levels[f.Name] = f.MaxVersionLevel
		}
		return resp.FinalizedFeaturesEpoch, levels
	}
	before, levels := final()
	require.Equal(t, int16(1), levels["group.version"])
	off := kmsg.NewPtrUpdateFeaturesRequest()
	off.SetVersion(1)
	off.TimeoutMillis = 10000
	u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	u.Feature, u.MaxVersionLevel, u.UpgradeType = "group.version", 0, 2
	off.FeatureUpdates = append(off.FeatureUpdates, u)
	require.Zero(t, ask[*kmsg.UpdateFeaturesResponse](w, off).ErrorCode)
	after, levels := final()
	require.NotContains(t, levels, "group.version", "level 0 is not listed")
	require.Greater(t, after, before)
}

// TestTrap4_UnknownTagsAndNullClients: every flexible version has tags at the end of its header,
// also without a client id (redpanda#6570), and tags that nobody knows are read over wherever
// there may be some. Those within bodies are in the golden requests of testdata.
func TestTrap4_UnknownTagsAndNullClients(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	for _, k := range advertised(dial(t, c)) {
		w := dial(t, c)
		advertised(w)
		for version := k.MinVersion; version <= k.MaxVersion; version++ {
			req := kmsg.RequestForKey(k.ApiKey)
			req.SetVersion(version)
			if !req.IsFlexible() || mayWait(k.ApiKey) {
				continue
			}
			req.(interface{ Default() }).Default()
			switch r := req.(type) {
			case *kmsg.ApiVersionsRequest:
				r.ClientSoftwareName, r.ClientSoftwareVersion = "x", "1"
			case *kmsg.ProduceRequest:
				r.Acks = -1
			case *kmsg.FetchRequest:
				r.SessionEpoch = -1
			}
			body := req.AppendTo(nil)
			require.Equal(t, byte(0), body[len(body)-1], "no tags yet")
			unknown := []byte{2, 0x90, 0x4e, 0, 0x91, 0x4e, 3, 'a', 'b', 'c'}
			body = append(body[:len(body)-1], unknown...)
			for _, client := range [][]byte{noClient(-1), {0, 0}, {0, 2, 'm', 'e'}} {
				frame := append(append([]byte(nil), unknown...), body...)
				got := rawAnswer(w, rawFrame(k.ApiKey, version, 5, client, frame))
				require.Equal(t, []byte{0, 0, 0, 5}, got[:4], "%s v%d",
					kmsg.NameForKey(k.ApiKey), version)
				resp := req.ResponseKind()
				resp.SetVersion(version)
				if k.ApiKey != 18 {
					got = got[1:]
				}
				require.NoError(t, resp.ReadFrom(got[4:]))
			}
		}
	}
}

// mayWait tells that an empty request of a key is not answered at once.
func mayWait(key int16) bool { return key == 11 || key == 14 }

// TestTrap5_AnswersKeepTheOrderOfTheRequest: every topic and partition that was named is answered,
// in the order in which it was.
func TestTrap5_AnswersKeepTheOrderOfTheRequest(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	newTopic(t, c, "a", 3, nil)
	newTopic(t, c, "z", 3, nil)
	w := dial(t, c)
	topics, parts := []string{"z", "nope", "a"}, []int32{2, 9, 0, 1}
	want := fmt.Sprint([]string{"z", "nope", "a"}, parts, parts, parts)
	fetch, produce := fetchRequest(12, "", [16]byte{}, 0, 0), produceRequest(9, "", [16]byte{}, 0, nil)
	offsets, epochs := kmsg.NewPtrListOffsetsRequest(), kmsg.NewPtrOffsetForLeaderEpochRequest()
	offsets.SetVersion(7)
	epochs.SetVersion(4)
	fetch.Topics, produce.Topics = nil, nil
	for _, name := range topics {
		ft, pt := kmsg.NewFetchRequestTopic(), kmsg.NewProduceRequestTopic()
		ot, et := kmsg.NewListOffsetsRequestTopic(), kmsg.NewOffsetForLeaderEpochRequestTopic()
		ft.Topic, pt.Topic, ot.Topic, et.Topic = name, name, name, name
		for _, p := range parts {
			fp, pp := kmsg.NewFetchRequestTopicPartition(), kmsg.NewProduceRequestTopicPartition()
			op := kmsg.NewListOffsetsRequestTopicPartition()
			ep := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
			fp.Partition, pp.Partition, op.Partition, ep.Partition = p, p, p, p
			pp.Records = batch(t, 1, record.BuilderOptions{})
			ft.Partitions, pt.Partitions = append(ft.Partitions, fp), append(pt.Partitions, pp)
			ot.Partitions, et.Partitions = append(ot.Partitions, op), append(et.Partitions, ep)
		}
		fetch.Topics, produce.Topics = append(fetch.Topics, ft), append(produce.Topics, pt)
		offsets.Topics, epochs.Topics = append(offsets.Topics, ot), append(epochs.Topics, et)
	}
	for _, req := range []kmsg.Request{produce, fetch, offsets, epochs} {
		require.Equal(t, want, orderOf(w.receive(req, w.send(req))), kmsg.NameForKey(req.Key()))
	}
}

// orderOf lists the topics and then their partitions of an answer.
func orderOf(resp kmsg.Response) string {
	var names []string
	var parts [][]int32
	add := func(name string) { names, parts = append(names, name), append(parts, nil) }
	part := func(p int32) { parts[len(parts)-1] = append(parts[len(parts)-1], p) }
	switch r := resp.(type) {
	case *kmsg.ProduceResponse:
		for _, t := range r.Topics {
			add(t.Topic)
			for _, p := range t.Partitions {
				part(p.Partition)
			}
		}
	case *kmsg.FetchResponse:
		for _, t := range r.Topics {
			add(t.Topic)
			for _, p := range t.Partitions {
				part(p.Partition)
			}
		}
	case *kmsg.ListOffsetsResponse:
		for _, t := range r.Topics {
			add(t.Topic)
			for _, p := range t.Partitions {
				part(p.Partition)
			}
		}
	case *kmsg.OffsetForLeaderEpochResponse:
		for _, t := range r.Topics {
			add(t.Topic)
			for _, p := range t.Partitions {
				part(p.Partition)
			}
		}
	}
	out := fmt.Sprint(names)
	for _, p := range parts {
		out += " " + fmt.Sprint(p)
	}
	return out
}

// TestTrap6_TopicIDs: an id that is not there is UNKNOWN_TOPIC_ID for each partition, the zero id
// as well, and the id of a deleted topic is not that of a new one with its name.
func TestTrap6_TopicIDs(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	id := newTopic(t, c, "t", 1, nil)
	w := dial(t, c)
	codes := func(id [16]byte) [2]int16 {
		put := produceRequest(13, "", id, 0, batch(t, 1, record.BuilderOptions{}))
		return [2]int16{produceOne(w, put).ErrorCode, fetchOne(w, fetchRequest(13, "", id, 0, 0)).ErrorCode}
	}
	require.Equal(t, [2]int16{0, 0}, codes(id))
	require.Equal(t, [2]int16{100, 100}, codes([16]byte{7}))
	require.Equal(t, [2]int16{100, 100}, codes([16]byte{}))
	del := kmsg.NewPtrDeleteTopicsRequest()
	del.SetVersion(6)
	del.TimeoutMillis = 10000
	topic := kmsg.NewDeleteTopicsRequestTopic()
	topic.TopicID = id
	del.Topics = append(del.Topics, topic)
	require.Zero(t, ask[*kmsg.DeleteTopicsResponse](w, del).Topics[0].ErrorCode)
	again := newTopic(t, c, "t", 1, nil)
	require.NotEqual(t, id, again)
	require.Equal(t, [2]int16{100, 100}, codes(id))
	require.Equal(t, [2]int16{0, 0}, codes(again))
}

// TestTrap7_LeaderIsMinusOneByDefault: KIP-951. A leader 0 that nobody meant sends clients to
// broker 0 (kgo #1519).
func TestTrap7_LeaderIsMinusOneByDefault(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	id := newTopic(t, c, "t", 1, nil)
	w := dial(t, c)
	for version := int16(10); version <= 18; version++ {
		for _, partition := range []int32{0, 7} {
			fetch := ask[*kmsg.FetchResponse](w, fetchRequest(version, "t", id, partition, 0))
			got := fetch.Topics[0].Partitions[0]
			require.Equal(t, int32(-1), got.CurrentLeader.LeaderID)
			require.Equal(t, int32(-1), got.CurrentLeader.LeaderEpoch)
			require.Equal(t, int32(-1), got.DivergingEpoch.Epoch)
			require.Equal(t, int64(-1), got.DivergingEpoch.EndOffset)
			require.Equal(t, int32(-1), got.PreferredReadReplica)
			require.Empty(t, fetch.Brokers)
			if version <= 13 {
				put := produceRequest(version, "t", id, partition,
					batch(t, 1, record.BuilderOptions{}))
				produce := ask[*kmsg.ProduceResponse](w, put)
				got := produce.Topics[0].Partitions[0]
				require.Equal(t, int32(-1), got.CurrentLeader.LeaderID)
				require.Equal(t, int32(-1), got.CurrentLeader.LeaderEpoch)
				require.Empty(t, produce.Brokers)
			}
		}
	}
}

// TestTrap7_WhoIsFencedIsToldTheLeader: who has an older leader epoch is told, from Fetch v16 on,
// who leads in which epoch and where that is, so that it need not ask Metadata.
func TestTrap7_WhoIsFencedIsToldTheLeader(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	id := newTopic(t, c, "t", 1, nil)
	c.Crash() // epoch 1
	w := dial(t, c)
	for version := int16(9); version <= 18; version++ {
		req := fetchRequest(version, "t", id, 0, 0)
		first(req).CurrentLeaderEpoch = 0
		resp := ask[*kmsg.FetchResponse](w, req)
		got := resp.Topics[0].Partitions[0]
		require.Equal(t, int16(74), got.ErrorCode)
		leader := [2]int32{got.CurrentLeader.LeaderID, got.CurrentLeader.LeaderEpoch}
		if version < 16 {
			require.Equal(t, [2]int32{-1, -1}, leader)
			continue
		}
		require.Equal(t, [2]int32{1, 1}, leader)
		require.Len(t, resp.Brokers, 1)
		require.Equal(t, int32(1), resp.Brokers[0].NodeID)
		require.Equal(t, "broker", resp.Brokers[0].Host)
		require.Equal(t, int32(9092), resp.Brokers[0].Port)
	}
}

// TestTrap8_ApiVersions5IsNotServed: KIP-1242 comes with rules of its own; until they are kept, the
// version is not advertised, and who asks in it is told version 4.
func TestTrap8_ApiVersions5IsNotServed(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	w := dial(t, c)
	i := slices.IndexFunc(advertised(w), func(k kmsg.ApiVersionsResponseApiKey) bool {
		return k.ApiKey == 18
	})
	require.Equal(t, int16(4), advertised(w)[i].MaxVersion)
	body := []byte{0, 2, 'x', 2, '1', 0, 0, 0, 0, 0, 0}
	got := rawAnswer(w, rawFrame(18, 5, 1, noClient(-1), body))
	require.Equal(t, []byte{0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 4}, got[4:])
}

// TestSeen9_NegativeLengthsAreNull: negative array lengths of requests that are not flexible, and
// negative lengths of client ids, are read as null, as a real Kafka does.
func TestSeen9_NegativeLengthsAreNull(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	newTopic(t, c, "t", 1, nil)
	w := dial(t, c)
	for _, length := range []int32{-1, -2, -1 << 31} {
		array := binary.BigEndian.AppendUint32(nil, uint32(length))
		got := rawAnswer(w, rawFrame(3, 1, 9, noClient(-5), array))
		all := kmsg.NewPtrMetadataResponse()
		all.SetVersion(1)
		require.NoError(t, all.ReadFrom(got[4:]))
		require.NotEmpty(t, all.Topics, "null is all topics")
		fetch := append([]byte{255, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0}, array...)
		got = rawAnswer(w, rawFrame(1, 4, 9, noClient(-1), fetch))
		require.Equal(t, []byte{0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0}, got, "no topics")
	}
}

// TestUnknownKeysAndVersionsCloseTheConnection: of any key but ApiVersions.
func TestUnknownKeysAndVersionsCloseTheConnection(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	served := map[int16]kmsg.ApiVersionsResponseApiKey{}
	for _, k := range advertised(dial(t, c)) {
		served[k.ApiKey] = k
	}
	try := func(key, version int16) {
		w := dial(t, c)
		_, err := w.c.Write(rawFrame(key, version, 1, noClient(-1), make([]byte, 64)))
		require.NoError(t, err)
		requireHangUp(t, w)
	}
	for key := int16(-1); key < 100; key++ {
		k, ok := served[key]
		if !ok {
			try(key, 0)
			continue
		}
		if key == 18 {
			continue
		}
		try(key, k.MaxVersion+1)
		if k.MinVersion > 0 {
			try(key, k.MinVersion-1)
		}
	}
}

// TestBug_redpanda25636_1496_4898_AnswersKeepOrder: requests of which the first ones wait, for the
// disk, for records, or not at all because they want no answer, are answered in order.
func TestBug_redpanda25636_1496_4898_AnswersKeepOrder(t *testing.T) {
	disk := vfs.NewFault(vfs.NewMem())
	c := coretest.Start(t, coretest.Options{FS: disk})
	id := newTopic(t, c, "t", 1, nil)
	w := dial(t, c)
	disk.Inject(vfs.Rule{Op: vfs.OpSync, Delay: 20 * time.Millisecond})
	var reqs []kmsg.Request
	var ids []int32
	want := 0
	for i := range 40 {
		var req kmsg.Request
		switch i % 5 {
		case 0, 1:
			put := produceRequest(9, "t", id, 0, batch(t, 1, record.BuilderOptions{}))
			put.Acks = []int16{-1, 0}[i%5]
			req = put
			want++
		case 2:
			fetch := fetchRequest(12, "t", id, 0, int64(want)-1)
			fetch.MaxWaitMillis = 5
			req = fetch
		case 3:
			req = kmsg.NewPtrMetadataRequest()
		default:
			req = kmsg.NewPtrApiVersionsRequest()
		}
		sent := w.send(req)
		if i%5 != 1 { // acks=0
			reqs, ids = append(reqs, req), append(ids, sent)
		}
	}
	for i, req := range reqs {
		w.receive(req, ids[i])
	}
	require.Eventually(t, func() bool {
		return listAt(w, -1, 0).offset == int64(want)
	}, time.Minute, time.Millisecond)
}
