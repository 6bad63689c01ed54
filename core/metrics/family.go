package metrics

// Kind is what a number means.
type Kind uint8

// The kinds, as Prometheus has them.
const (
	Counter      Kind = iota + 1 // only rises, from 0 at the start of the process
	Gauge                        // is what it is at this moment
	Distribution                 // counts by upper bound, with their sum
)

// String is Prometheus's word for the kind.
func (k Kind) String() string {
	switch k {
	case Counter:
		return "counter"
	case Distribution:
		return "histogram"
	}
	return "gauge"
}

// Family describes the samples of one name.
type Family struct {
	// Name begins with "millstream_" and ends with the unit, counters with _total.
	Name string
	// Help is one sentence.
	Help string
	Kind Kind
	// Labels are the names of the labels, in the order in which values are given.
	Labels []string
	// Kafka is what Apache Kafka, or its usual exporter, calls it; "" if it has no such thing.
	Kafka string
}

// Source has some families and their present values.
type Source interface {
	// Families lists what WriteMetrics may write, in that order.
	Families() []*Family
	// WriteMetrics writes the values of this moment.
	WriteMetrics(p *Page)
}
