package raft

import (
	"fmt"
	"log/slog"
)

// raftLogger gives the algorithm's text lines to slog. Its Fatal and Panic are for broken
// invariants of the algorithm, and panic.
type raftLogger struct{ log *slog.Logger }

func (l raftLogger) Debug(v ...any)              { l.log.Debug("raft", "text", fmt.Sprint(v...)) }
func (l raftLogger) Debugf(f string, v ...any)   { l.log.Debug("raft", "text", text(f, v)) }
func (l raftLogger) Info(v ...any)               { l.log.Debug("raft", "text", fmt.Sprint(v...)) }
func (l raftLogger) Infof(f string, v ...any)    { l.log.Debug("raft", "text", text(f, v)) }
func (l raftLogger) Warning(v ...any)            { l.log.Warn("raft", "text", fmt.Sprint(v...)) }
func (l raftLogger) Warningf(f string, v ...any) { l.log.Warn("raft", "text", text(f, v)) }
func (l raftLogger) Error(v ...any)              { l.log.Error("raft", "text", fmt.Sprint(v...)) }
func (l raftLogger) Errorf(f string, v ...any)   { l.log.Error("raft", "text", text(f, v)) }
func (l raftLogger) Fatal(v ...any)              { panic(fmt.Sprint(v...)) }
func (l raftLogger) Fatalf(f string, v ...any)   { panic(text(f, v)) }
func (l raftLogger) Panic(v ...any)              { panic(fmt.Sprint(v...)) }
func (l raftLogger) Panicf(f string, v ...any)   { panic(text(f, v)) }

func text(format string, v []any) string { return fmt.Sprintf(format, v...) }
