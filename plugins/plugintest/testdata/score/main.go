// Command score is the operator the suite itself is tried on.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/millstream-io/millstream/plugins/sdk"
)

// Config configures score.
type Config struct {
	Threshold float64 `json:"threshold" default:"0.8" min:"0" max:"1" doc:"score above which to flag"`
}

func init() {
	if os.Getenv("NOISE") != "" {
		fmt.Print("noise before Serve")
	}
}

func main() {
	sdk.Map("score", func(_ sdk.Ctx, c Config, r *sdk.Record) error {
		if os.Getenv("NOISE") != "" {
			fmt.Print("noise after Serve")
		}
		var score float64
		switch v := r.Get("score").(type) {
		case float64:
			score = v
		case int64:
			score = float64(v)
		default:
			return errors.New("no score")
		}
		return r.Set("flagged", score > c.Threshold)
	})
}
