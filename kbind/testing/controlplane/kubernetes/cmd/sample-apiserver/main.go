// Command sample-apiserver serves wardle.example.com, at the version that go.mod pins.
package main

import (
	"os"

	"k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/cli"
	wardle "k8s.io/sample-apiserver/pkg/cmd/server"
)

func main() {
	options := wardle.NewWardleServerOptions(os.Stdout, os.Stderr)
	command := wardle.NewCommandStartWardleServer(server.SetupSignalContext(), options, false)
	os.Exit(cli.Run(command))
}
