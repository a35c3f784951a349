module roundhouse/go_proxy

go 1.24
