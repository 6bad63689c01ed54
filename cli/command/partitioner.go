package command

import "github.com/twmb/franz-go/pkg/kgo"

// explicitOrByKey writes a record to the partition it names, and to the one its key hashes to (as
// the Java client does) when it names none (-1).
type explicitOrByKey struct{}

func (explicitOrByKey) ForTopic(topic string) kgo.TopicPartitioner {
	return &explicitTopic{byKey: kgo.StickyKeyPartitioner(nil).ForTopic(topic)}
}

type explicitTopic struct{ byKey kgo.TopicPartitioner }

func (*explicitTopic) RequiresConsistency(*kgo.Record) bool { return true }

func (t *explicitTopic) Partition(r *kgo.Record, n int) int {
	if r.Partition >= 0 {
		return int(r.Partition) // out of range makes the record fail, with the partition's number
	}
	return t.byKey.Partition(r, n)
}
