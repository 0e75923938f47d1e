package a2astore_test

import (
	"log"
	"net/http"

	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"github.com/a2a-taskstore/taskstore/client"
	"github.com/a2a-taskstore/taskstore/client/a2astore"
)

// An agent whose replicas share their tasks: each of them runs this.
func Example() {
	var executor a2asrv.AgentExecutor // the agent

	c, err := client.Dial("localhost:7420")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = c.Close() }()

	store := a2astore.New(c, a2astore.WithOrigin("replica-1"))
	handler := a2asrv.NewHandler(executor, a2asrv.WithTaskStore(store))
	log.Print(http.ListenAndServe("localhost:8080", a2asrv.NewJSONRPCHandler(handler)))
}
