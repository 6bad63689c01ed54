package streamstest_test

import (
	"fmt"

	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/streamstest"
	"github.com/millstream-io/millstream/streams/topology"
)

func ExampleDriver() {
	b := topology.NewBuilder(topology.Options{App: "shout"})
	b.Source("words", "words", topology.SourceOptions{})
	b.Map("loud", "words", func(rec *operator.Record) error {
		rec.SetValue(append(rec.Value[:len(rec.Value):len(rec.Value)], '!'))
		return nil
	})
	b.Sink("out", "loud", "shouts", topology.SinkOptions{})

	d, err := streamstest.New(b, streamstest.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	d.Send("words", "k", "hello", 1)
	if err := d.Run(); err != nil {
		fmt.Println(err)
	}
	if err := d.Crash(); err != nil { // nothing is lost or doubled
		fmt.Println(err)
	}
	d.Send("words", "k", "again", 2)
	if err := d.Run(); err != nil {
		fmt.Println(err)
	}
	fmt.Println(d.Output("shouts"))
	// Output: [k hello! @1 k again! @2]
}
