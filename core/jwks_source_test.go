package core

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/vfs"
)

// S10: the keys of tokens come from a file, over https or from this machine, and from nowhere that
// an answer points to.
func TestKeysOfTokensComeFromWhereTheyShould(t *testing.T) {
	for where, taken := range map[string]bool{
		"https://issuer.example/keys": true, "http://127.0.0.1:1/keys": true,
		"http://localhost:1/keys": true, "file:///keys.json": true,
		"http://issuer.example/keys": false, "http://127.0.0.1.example/keys": false,
		"gopher://127.0.0.1/keys": false, "file://host/keys.json": false, "ftp://x/": false,
		"/keys.json": false, "": false,
	} {
		_, err := keySetReader(vfs.NewMem(), where)
		require.Equal(t, taken, err == nil, "%q: %v", where, err)
	}
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if r.URL.Path == "/keys" {
			http.Redirect(w, r, "/other", http.StatusFound)
		}
	}))
	defer server.Close()
	read, err := keySetReader(vfs.NewMem(), server.URL+"/keys")
	require.NoError(t, err)
	_, err = read(t.Context())
	require.ErrorContains(t, err, "302")
	require.Equal(t, 1, asked)
}
