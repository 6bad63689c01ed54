// Package broker runs a millstream server in a process of its own, for the checks of faults beside it, and looks at it
// from outside: /proc, /metrics, profiles, its log.
package broker
