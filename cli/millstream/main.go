// Command millstream is the log, its pipelines and its tools in one binary.
package main

import (
	"os"

	"github.com/millstream-io/millstream/cli/command"
)

func main() { os.Exit(command.Main(os.Args[1:])) }
