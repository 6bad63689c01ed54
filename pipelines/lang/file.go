package lang

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// maxReferenced bounds a file named by ${file:…}: it holds a password or a certificate.
const maxReferenced = 1 << 20

// FilesUnder returns an Options.ReadFile that reads files inside the given folders and nowhere
// else: not by .., and not by a symbolic link that leads out. Without folders it reads nothing.
func FilesUnder(folders ...string) func(path string) ([]byte, error) {
	return func(path string) ([]byte, error) {
		if !filepath.IsAbs(path) {
			return nil, fmt.Errorf("the path must be absolute")
		}
		for _, folder := range folders {
			inside, err := filepath.Rel(folder, filepath.Clean(path))
			if err != nil || !filepath.IsLocal(inside) {
				continue
			}
			return readInside(folder, inside)
		}
		return nil, fmt.Errorf("it is in no folder that may be read")
	}
}

func readInside(folder, name string) ([]byte, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxReferenced+1))
	if err == nil && len(text) > maxReferenced {
		err = fmt.Errorf("it has more than %d bytes", maxReferenced)
	}
	return text, err
}
