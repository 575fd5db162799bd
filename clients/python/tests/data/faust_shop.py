"""The Faust application of docs/migrating-from-faust.md. faust-changelogs.json is what it wrote."""

# Faust is not installed where the types are checked.
# pyright: basic, reportMissingImports=false

import faust

app = faust.App("shop", topic_partitions=2)


class Order(faust.Record):
    item: str
    cents: int


class Account(faust.Record):
    orders: int
    cents: int
    items: list[str]


def new_account() -> Account:
    return Account(orders=0, cents=0, items=[])


orders = app.topic("orders", key_type=str, value_type=Order)
large = app.topic("large-orders", key_type=str, value_type=Order)
accounts = app.Table("accounts", key_type=str, value_type=Account, default=new_account)
per_minute = app.Table("per_minute", key_type=str, default=int).tumbling(60, expires=86400)


@app.agent(orders)
async def on_orders(stream):
    async for name, order in stream.items():
        account = accounts[name]
        account.orders += 1
        account.cents += order.cents
        account.items.append(order.item)
        accounts[name] = account
        per_minute[name] += 1
        if order.cents >= 10_000:
            await large.send(key=name, value=order)


if __name__ == "__main__":
    app.main()
