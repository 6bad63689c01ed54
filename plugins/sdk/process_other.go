//go:build !unix

package sdk

import (
	"os"

	"github.com/millstream-io/millstream/plugins/pluginpb"
)

var (
	startedByHost = os.Getenv(pluginpb.CookieKey) == pluginpb.CookieValue
	handshake     = os.Stdout
)

func init() {
	if startedByHost {
		os.Stdout = os.Stderr
	}
}

func openHandshake() { os.Stdout = handshake }
