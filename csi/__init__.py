"""The CSI driver `driver.harvesterhci.io`."""
