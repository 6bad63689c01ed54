// Command punctuality is the flights example's operator: it gives each flight a status.
package main

import "github.com/millstream-io/millstream/plugins/sdk"

// Config says how many minutes late a flight may be.
type Config struct {
	OnTime int64 `json:"on_time" default:"15" min:"0" doc:"largest delay, in minutes, that is on time"`
	Late   int64 `json:"late" default:"60" min:"0" doc:"largest delay, in minutes, that is just late"`
}

func main() { sdk.Map("punctuality", status) }

func status(_ sdk.Ctx, c Config, r *sdk.Record) error {
	var flight struct{ Delay int64 }
	if err := r.Decode(&flight); err != nil {
		return err
	}
	switch {
	case flight.Delay <= c.OnTime:
		return r.Set("status", "on-time")
	case flight.Delay <= c.Late:
		return r.Set("status", "late")
	default:
		return r.Set("status", "very-late")
	}
}
