package runner

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// maxReferenced bounds the file behind a ${file:…}.
const maxReferenced = 1 << 20

// readBelow reads a file in or below dir, and no other: what a pipeline says must not read the
// files of whoever runs it.
func readBelow(dir, path string) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if filepath.IsAbs(path) {
		rel, err := filepath.Rel(dir, path)
		if err != nil || strings.HasPrefix(rel, "..") {
			return nil, fmt.Errorf("%s: %w", path, errOutside)
		}
		path = rel
	}
	file, err := root.Open(filepath.Clean(path))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxReferenced+1))
	if err == nil && len(data) > maxReferenced {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxReferenced)
	}
	return data, err
}

// secretPrefix begins the environment variables that hold secrets: ${secret:pg_dsn} is
// MILLSTREAM_SECRET_PG_DSN. Unlike ${env:…}, a secret is never printed.
const secretPrefix = "MILLSTREAM_SECRET_"

func secretFromEnv(name string) (string, error) {
	key := secretPrefix + strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(name))
	value, ok := os.LookupEnv(key)
	if !ok {
		return "", fmt.Errorf("secret %q is not set: the environment variable %s holds it", name, key)
	}
	return value, nil
}
