package vnet_test

import (
	"context"
	"fmt"
	"io"

	"github.com/millstream-io/millstream/core/vnet"
)

func ExamplePipe() {
	network := vnet.NewPipe()
	listener, err := network.Listen(context.Background(), "broker:9092")
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := network.Dial(context.Background(), listener.Addr().String())
	if err != nil {
		fmt.Println(err)
		return
	}
	server, err := listener.Accept()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Fprint(client, "hello") // buffered: it does not wait for the reader
	client.Close()
	text, err := io.ReadAll(server)
	fmt.Printf("%s %v\n", text, err)
	// Output: hello <nil>
}
