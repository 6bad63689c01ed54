package sdk_test

import (
	"fmt"
	"io"

	"github.com/millstream-io/millstream/plugins/sdk"
)

// A whole plugin: the main of an operator that flags records.
func ExampleMap() {
	type Config struct {
		Threshold float64 `json:"threshold" default:"0.8" min:"0" max:"1" doc:"score to flag above"`
	}
	main := func() {
		sdk.Map("fraud", func(_ sdk.Ctx, c Config, r *sdk.Record) error {
			score, _ := r.Get("score").(float64)
			return r.Set("flagged", score > c.Threshold)
		})
	}
	_ = main // it would serve, and not return
}

func ExampleRecord_Set() {
	r := sdk.NewRecord(nil, []byte(`{"id": 7, "price": 10.50}`))
	_ = r.Set("status", "late")
	_ = r.Set("price", 11)
	fmt.Println(string(r.Value()))
	// Output: {"id": 7, "price": 11,"status":"late"}
}

func ExampleNewFlatMap() {
	words := sdk.NewFlatMap("words", func(_ sdk.Ctx, _ struct{}, r *sdk.Record, emit sdk.Emit) error {
		list, ok := r.Get("words").([]any)
		if !ok {
			return fmt.Errorf("no list of words")
		}
		for _, w := range list {
			if err := r.Set("", w); err != nil {
				return err
			}
			emit(r)
		}
		return nil
	})
	fmt.Println(words.Name())
	// Output: words
}

// countdown is a bounded source; its position is the number it is at.
type countdown struct{ left int }

func (c *countdown) Open(_ sdk.Ctx, config countdownConfig, position *int) error {
	c.left = config.From
	if position != nil {
		c.left = *position
	}
	return nil
}

func (c *countdown) Read(_ sdk.Ctx, out *sdk.Out[int]) error {
	for c.left > 0 && !out.Full() {
		out.Add(sdk.NewRecord(nil, fmt.Appendf(nil, "%d", c.left)))
		c.left--
	}
	out.SetPosition(c.left)
	if c.left == 0 {
		return io.EOF
	}
	return nil
}

func (c *countdown) Commit(sdk.Ctx, int) error { return nil }
func (c *countdown) Close() error              { return nil }

type countdownConfig struct {
	From int `json:"from" default:"10" min:"0"`
}

func ExampleNewSource() {
	part := sdk.NewSource("countdown", func() sdk.SourceReader[countdownConfig, int] {
		return &countdown{}
	})
	for _, d := range part.Check([]byte(`{"form": 3}`)) {
		fmt.Println(d.Pointer, d.Message, d.Hint)
	}
	// Output: /form unknown field "form" did you mean "from"?
}
