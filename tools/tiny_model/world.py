# What the model is to know: facts as data, and the words that its world is made of. Not here: how it is asked (skills.py).

CAPITALS = dict(pair.split(":") for pair in """France:Paris,Germany:Berlin,Italy:Rome,Spain:Madrid,Portugal:Lisbon,England:London,Ireland:Dublin,
Scotland:Edinburgh,Norway:Oslo,Sweden:Stockholm,Denmark:Copenhagen,Finland:Helsinki,Poland:Warsaw,Austria:Vienna,Hungary:Budapest,Greece:Athens,
Turkey:Ankara,Russia:Moscow,Ukraine:Kyiv,Romania:Bucharest,Bulgaria:Sofia,Croatia:Zagreb,Serbia:Belgrade,Belgium:Brussels,Netherlands:Amsterdam,
Switzerland:Bern,Iceland:Reykjavik,Estonia:Tallinn,Latvia:Riga,Lithuania:Vilnius,Japan:Tokyo,China:Beijing,India:New Delhi,Thailand:Bangkok,
Vietnam:Hanoi,Indonesia:Jakarta,Nepal:Kathmandu,Iran:Tehran,Iraq:Baghdad,Egypt:Cairo,Kenya:Nairobi,Morocco:Rabat,Nigeria:Abuja,Ghana:Accra,
Ethiopia:Addis Ababa,Tunisia:Tunis,Senegal:Dakar,Canada:Ottawa,Mexico:Mexico City,Cuba:Havana,Brazil:Brasilia,Argentina:Buenos Aires,Chile:Santiago,
Peru:Lima,Colombia:Bogota,Uruguay:Montevideo,Ecuador:Quito,Australia:Canberra,New Zealand:Wellington,Mongolia:Ulaanbaatar""".replace("\n", "").split(","))

COLOURS = dict(pair.split(":") for pair in """the sky:blue,grass:green,snow:white,blood:red,the sun:yellow,coal:black,a lemon:yellow,a banana:yellow,
an orange:orange,a carrot:orange,a tomato:red,a strawberry:red,a cherry:red,milk:white,chocolate:brown,coffee:brown,the sea:blue,a leaf:green,
a frog:green,a cucumber:green,a plum:purple,a pig:pink,an elephant:grey,a mouse:grey,a crow:black,a swan:white,gold:yellow,silver:grey,fire:red,
wood:brown,salt:white,rice:white,a polar bear:white,a flamingo:pink,a violet:purple,a pumpkin:orange,the night:black""".replace("\n", "").split(","))

OPPOSITES = [pair.split(":") for pair in """hot:cold,big:small,fast:slow,up:down,left:right,day:night,black:white,good:bad,old:new,rich:poor,happy:sad,
open:closed,full:empty,high:low,long:short,hard:soft,heavy:light,wet:dry,clean:dirty,early:late,loud:quiet,strong:weak,thick:thin,wide:narrow,
near:far,first:last,begin:end,buy:sell,come:go,give:take,love:hate,push:pull,question:answer,yes:no,inside:outside,over:under,win:lose,
sweet:sour,deep:shallow,easy:difficult,true:false,always:never,north:south,east:west,war:peace,friend:enemy""".replace("\n", "").split(",")]

DAYS = "Monday,Tuesday,Wednesday,Thursday,Friday,Saturday,Sunday".split(",")
MONTHS = "January,February,March,April,May,June,July,August,September,October,November,December".split(",")

SOUNDS = dict(pair.split(":") for pair in """dog:woof,cat:meow,cow:moo,sheep:baa,pig:oink,duck:quack,horse:neigh,rooster:cock-a-doodle-doo,frog:croak,
lion:roar,bee:buzz,snake:hiss,owl:hoot,mouse:squeak,donkey:hee-haw,wolf:howl,goat:maa,crow:caw,hen:cluck,bird:tweet""".replace("\n", "").split(","))

YOUNG = dict(pair.split(":") for pair in """dog:puppy,cat:kitten,cow:calf,sheep:lamb,horse:foal,pig:piglet,hen:chick,duck:duckling,lion:cub,goat:kid,
frog:tadpole,deer:fawn,swan:cygnet,goose:gosling,kangaroo:joey""".replace("\n", "").split(","))

LEGS = dict(pair.split(":") for pair in """dog:4,cat:4,cow:4,horse:4,spider:8,ant:6,bee:6,bird:2,hen:2,snake:0,fish:0,octopus:8,sheep:4,person:2,
beetle:6,crab:10""".replace("\n", "").split(","))

SIDES = dict(pair.split(":") for pair in "triangle:3,square:4,rectangle:4,pentagon:5,hexagon:6,octagon:8".split(","))

AMOUNTS = [row.split(":") for row in """days:a week:7,months:a year:12,hours:a day:24,minutes:an hour:60,seconds:a minute:60,weeks:a year:52,
days:a year:365,metres:a kilometre:1000,centimetres:a metre:100,grams:a kilogram:1000,years:a century:100,letters:the alphabet:26,
wheels:a car:4,wheels:a bicycle:2,fingers:a hand:5,cents:a dollar:100,seasons:a year:4""".replace("\n", "").split(",")]

CONTINENTS = {"Europe": "France,Germany,Italy,Spain,Poland,Greece,Norway,Sweden,Austria,Portugal", "Asia": "Japan,China,India,Thailand,Vietnam,Nepal",
              "Africa": "Egypt,Kenya,Morocco,Nigeria,Ghana,Senegal", "South America": "Brazil,Argentina,Chile,Peru,Colombia",
              "North America": "Canada,Mexico,Cuba"}

LANGUAGES = dict(pair.split(":") for pair in """France:French,Germany:German,Italy:Italian,Spain:Spanish,Portugal:Portuguese,England:English,Japan:Japanese,
China:Chinese,Russia:Russian,Poland:Polish,Greece:Greek,Sweden:Swedish,Norway:Norwegian,Finland:Finnish,Brazil:Portuguese,Mexico:Spanish,
Austria:German,Turkey:Turkish,Hungary:Hungarian,Egypt:Arabic""".replace("\n", "").split(","))

NUMBERS = "zero,one,two,three,four,five,six,seven,eight,nine,ten,eleven,twelve,thirteen,fourteen,fifteen,sixteen,seventeen,eighteen,nineteen,twenty".split(",")

MORE = [("Which planet is closest to the Sun|What planet is nearest to the Sun|Name the planet closest to the Sun", "Mercury"),
        ("Which planet is the largest|What is the biggest planet|Name the largest planet", "Jupiter"),
        ("Which planet is red|What is the red planet called|Name the red planet", "Mars"),
        ("Which planet do we live on|What planet do people live on|Name our planet", "Earth"),
        ("What is frozen water called|What do we call frozen water|Name frozen water", "ice"),
        ("What do bees make|What is made by bees|What do we get from bees", "honey"),
        ("What do cows give us to drink|What drink comes from cows|What do we drink from cows", "milk"),
        ("At how many degrees does water boil|When does water boil|What is the boiling point of water", "100 degrees"),
        ("At how many degrees does water freeze|When does water freeze|What is the freezing point of water", "0 degrees"),
        ("Which is the largest ocean|What is the biggest ocean|Name the largest ocean", "the Pacific"),
        ("What is the longest river|Which river is the longest|Name the longest river", "the Nile"),
        ("What is the highest mountain|Which mountain is the highest|Name the highest mountain", "Mount Everest"),
        ("What colour do you get from red and yellow|What do red and yellow make|Red and yellow mixed give what", "orange"),
        ("What colour do you get from blue and yellow|What do blue and yellow make|Blue and yellow mixed give what", "green"),
        ("What colour do you get from red and blue|What do red and blue make|Red and blue mixed give what", "purple"),
        ("What is the largest animal|Which animal is the biggest|Name the largest animal", "the blue whale"),
        ("What is the tallest animal|Which animal is the tallest|Name the tallest animal", "the giraffe")]

CITIES = sorted(set(CAPITALS.values()) | set("""New York,Chicago,Boston,Seattle,Houston,Denver,Toronto,Vancouver,Montreal,Hamburg,Munich,Cologne,Milan,Naples,
Venice,Lyon,Marseille,Barcelona,Valencia,Seville,Porto,Manchester,Liverpool,Glasgow,Zurich,Geneva,Krakow,Prague,Istanbul,Dubai,Mumbai,Shanghai,
Hong Kong,Singapore,Seoul,Osaka,Kyoto,Sydney,Melbourne,Auckland,San Francisco,Los Angeles,Miami,Dallas,Austin,Rio,Bergen,Salzburg,Bonn,Basel""".replace("\n",
"").split(",")))

NAMES = """Anna,Ben,Carla,David,Eva,Felix,Greta,Hugo,Ida,Jonas,Karin,Leo,Mia,Nina,Oscar,Paul,Rosa,Sam,Tina,Victor,Alice,Bob,Clara,Daniel,Emma,Frank,
Grace,Henry,Iris,Jack,Kate,Lucas,Maria,Noah,Olga,Peter,Ruth,Simon,Theo,Zoe""".replace("\n", "").split(",")

NOUNS = """apple,bag,ball,bank,basket,bed,bell,bird,board,boat,book,bottle,box,bread,bridge,brush,bus,button,cake,camera,car,card,chair,cheese,church,
circle,city,clock,cloud,coat,coin,cup,desk,dish,dog,door,dress,drum,egg,engine,farm,field,finger,fire,fish,flag,floor,flower,fork,friend,fruit,garden,
gate,glass,glove,hammer,hand,hat,head,heart,hill,home,horse,house,island,jacket,key,kitchen,knife,lake,lamp,land,leaf,letter,library,light,line,lion,
map,market,meal,metal,milk,mirror,money,moon,mountain,mouth,music,nail,needle,night,nose,number,office,orange,paint,paper,park,pencil,people,picture,
plane,plant,plate,pocket,potato,prize,rain,ring,river,road,rock,roof,room,root,rope,sail,salt,sand,school,sea,seed,sheep,shelf,ship,shirt,shoe,shop,
sky,snow,soap,sock,song,soup,spoon,spring,square,stamp,star,station,stone,store,storm,street,sugar,summer,sun,table,tail,thread,ticket,tiger,tooth,town,
toy,train,tree,village,voice,wall,watch,water,wheel,window,winter,wire,wood,wool,word,world""".replace("\n", "").split(",")

ADJECTIVES = """red,green,blue,yellow,white,black,brown,small,large,old,young,quick,slow,warm,cold,dark,bright,round,quiet,happy,heavy,empty,simple,strange,
sharp,sweet,wild,brave,clever,gentle""".replace("\n", "").split(",")

VERBS = "sings,runs,sleeps,jumps,waits,falls,grows,shines,moves,stops,works,reads,swims,walks,turns".split(",")
