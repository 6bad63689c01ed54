package host

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
)

// Command says how to start a plugin process.
type Command struct {
	Path string   // of the binary
	Args []string // after the name
	// Env is added to the few variables every plugin gets (PATH, HOME, TZ, TMPDIR, SSL_CERT_FILE,
	// SSL_CERT_DIR, GOMAXPROCS, GOMEMLIMIT): KEY=value. Nothing else of the host's environment passes.
	Env []string
	// Dir is the working directory of the process, which relative paths in configurations start from;
	// "" = that of the host.
	Dir string
	// SHA256 is the checksum the binary must have, in hex; "" = not checked. On Linux the bytes that
	// were checked are the bytes that run.
	SHA256 string

	name string // what the process list shows; "" = Path
}

// shown is the name of the binary for people.
func (c Command) shown() string {
	if c.name != "" {
		return c.name
	}
	return c.Path
}

// Self is the command that starts this very binary, for connectors that are compiled in. args
// lead to the call of sdk.ServeBuiltin.
func Self(args ...string) (Command, error) {
	path, err := os.Executable()
	if err != nil {
		return Command{}, fmt.Errorf("find the running binary: %w", err)
	}
	c := Command{Path: path, Args: args, name: path}
	if runtime.GOOS == "linux" {
		c.Path = "/proc/self/exe" // the running one, even when the file was replaced
	}
	return c, nil
}

// passedEnv are the variables of the host a plugin gets.
var passedEnv = []string{
	"PATH", "HOME", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "GOMAXPROCS", "GOMEMLIMIT",
	"GOCOVERDIR", "SYSTEMROOT",
}

func (c Command) environ() []string {
	var env []string
	for _, k := range passedEnv {
		if v, ok := os.LookupEnv(k); ok {
			env = append(env, k+"="+v)
		}
	}
	return append(env, c.Env...)
}

// open opens and checks the binary. The file stays open for the process to be started from it.
func (c Command) open() (*os.File, error) {
	f, err := os.Open(c.Path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && (info.IsDir() || info.Mode()&0o111 == 0) {
		err = fmt.Errorf("%s is not an executable file", c.Path)
	}
	if err == nil && c.SHA256 != "" {
		var sum string
		if sum, err = sha256Of(f); err == nil && !strings.EqualFold(sum, c.SHA256) {
			err = fmt.Errorf("%w: %s has %s, want %s", ErrChecksum, c.Path, sum, c.SHA256)
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func sha256Of(f *os.File) (string, error) {
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Checksum returns the SHA-256 of a file in hex, for Command.SHA256.
func Checksum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return sha256Of(f)
}
