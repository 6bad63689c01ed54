//go:build !linux

package server

import "errors"

// transfer exists on Linux only.
type transfer struct{}

// sendfile is not used on this system: conn.go leaves files off.
func (*answerWriter) sendfile(systemFile, int64, int) error {
	return errors.ErrUnsupported
}
